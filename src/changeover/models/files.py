"""Files attached to a user's message: read and checked before anything is recorded."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from stat import S_ISDIR, S_ISREG
from typing import TypeAlias
from urllib.parse import unquote, urlsplit

from msgspec.structs import replace

from changeover.errors import MisconfiguredError
from changeover.messages import File

Given: TypeAlias = File | str | Path

LARGEST = 20_000_000
"""Bytes, of all files of a message: they stand in the log, and providers take little more."""
TOO_MUCH = (
    f"and a message takes {LARGEST / 1e6:.0f} MB; give an address that the model's provider can reach: File(url=…)"
)
OFFICE = "application/vnd.openxmlformats-officedocument"
ENDINGS = {
    "image/png": "png",
    "image/jpeg": "jpg jpeg",
    "image/gif": "gif",
    "image/webp": "webp",
    "application/pdf": "pdf",
    "application/msword": "doc",
    "application/vnd.ms-excel": "xls",
    f"{OFFICE}.wordprocessingml.document": "docx",
    f"{OFFICE}.spreadsheetml.sheet": "xlsx",
    "text/plain": "txt",
    "text/csv": "csv",
    "text/html": "html htm",
    "text/markdown": "md",
    "application/json": "json",
    "audio/wav": "wav",
    "audio/mpeg": "mp3",
    "audio/ogg": "ogg oga",
    "audio/flac": "flac",
    "audio/aiff": "aiff aif",
    "audio/aac": "aac",
    "video/mp4": "mp4",
    "video/quicktime": "mov",
    "video/x-matroska": "mkv",
    "video/webm": "webm",
    "video/x-flv": "flv",
    "video/mpeg": "mpeg mpg",
    "video/x-ms-wmv": "wmv",
    "video/3gpp": "3gp",
}
"""What some provider reads, and how the names of such files end. Any other text is read as text."""
TYPES = {ending: media_type for media_type, endings in ENDINGS.items() for ending in endings.split()}
BEGINNINGS = {
    "image/png": b"\x89PNG\r\n\x1a\n",
    "image/jpeg": b"\xff\xd8\xff",
    "image/gif": b"GIF8",
    "image/webp": b"RIFF",
    "application/pdf": b"%PDF-",
}
"""Providers refuse an image that is not what it is called, and then the whole conversation with it."""


class _Fault(Exception):
    """Why a file cannot be taken."""


def attached(given: Sequence[Given]) -> tuple[File, ...]:
    """The files with their bytes and their types; raises MisconfiguredError with all that is wrong with them."""
    if isinstance(given, str | bytes | Path | File) or not isinstance(given, Sequence):
        raise MisconfiguredError(f"files must be a list, not {type(given).__name__}; a single one stands in a list too")
    files: list[File] = []
    faults: list[str] = []
    for each in given:
        try:
            files.append(_checked(_opened(each)))
        except _Fault as fault:
            faults.append(str(fault))
    if (size := sum(len(file.data) for file in files)) > LARGEST:
        faults.append(f"the files have {size / 1e6:.1f} MB together, {TOO_MUCH}")
    if faults:
        raise MisconfiguredError(*faults)
    return tuple(files)


def is_text(media_type: str) -> bool:
    """Whether its bytes are text, whatever the text is."""
    return media_type.startswith("text/") or media_type.endswith(("json", "xml", "yaml", "toml"))


def _opened(given: Given) -> File:
    match given:
        case File():
            return given
        case str() if given.startswith(("http://", "https://")):
            return File(url=given)
        case str() | Path():
            return _read(Path(given))
        case _:
            raise _Fault(f"a file is given by its path, its address or as a File, not as {type(given).__name__}")


def _read(path: Path) -> File:
    try:
        about = path.stat()
        if not S_ISREG(about.st_mode) and not S_ISDIR(about.st_mode):
            raise _Fault(f"{str(path)!r} is a device or a pipe, and no file")
        if about.st_size > LARGEST:
            raise _Fault(f"the file {str(path)!r} has {about.st_size / 1e6:.1f} MB, {TOO_MUCH}")
        # A name may hold what is no text.
        return File(path.read_bytes(), name=path.name.encode(errors="replace").decode())
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise _Fault(f"the file {str(path)!r} cannot be read: {reason}") from error


def _checked(file: File) -> File:
    if bool(file.data) == bool(file.url):
        named = f"the file {file.name!r}" if file.name else "a File"
        raise _Fault(f"{named} has both bytes and an address" if file.url else f"{named} is empty")
    return _at_address(file) if file.url else _held(file)


def _at_address(file: File) -> File:
    parts = urlsplit(file.url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise _Fault(f"{file.url!r} is no address that a model can read; give one with https://, or a path")
    name = file.name or unquote(PurePosixPath(parts.path).name)
    media_type = file.media_type or _by_name(name)
    if not media_type:
        raise _Fault(f"it cannot be told what {file.url} is; say it: File(url=…, media_type='image/png')")
    _known(name or file.url, media_type)
    return replace(file, media_type=media_type, name=name)


def _held(file: File) -> File:
    found = _by_beginning(file.data)
    media_type = file.media_type or found or _by_name(file.name) or _text_if(file.data)
    named = file.name or "a File"
    if not media_type:
        raise _Fault(f"it cannot be told what {named} is; say it: File(data, 'image/png')")
    _known(named, media_type)
    if media_type in BEGINNINGS and media_type != found:
        raise _Fault(f"{named} is no {media_type}{f', but {found}' if found else ''}")
    if is_text(media_type) and not _text_if(file.data):
        raise _Fault(f"{named} should be {media_type}, and is no text in UTF-8")
    return replace(file, media_type=media_type)


def _known(named: str, media_type: str) -> None:
    if media_type not in ENDINGS and not is_text(media_type):
        raise _Fault(f"{named} is {media_type}, which no model reads; they read: {', '.join(sorted(TYPES))}, and text")


def _by_name(name: str) -> str:
    return TYPES.get(PurePosixPath(name).suffix.lower().lstrip("."), "")


def _by_beginning(data: bytes) -> str:
    for media_type, beginning in BEGINNINGS.items():
        if data.startswith(beginning) and (beginning != b"RIFF" or data[8:12] == b"WEBP"):
            return media_type
    return ""


def _text_if(data: bytes) -> str:
    try:
        return "" if "\0" in data.decode() else "text/plain"
    except UnicodeDecodeError:
        return ""
