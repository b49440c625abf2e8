"""Files attached to a user's message: read and checked before anything is recorded."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from stat import S_ISDIR, S_ISREG
from typing import TypeAlias
from urllib.parse import unquote, urlsplit

from msgspec.structs import replace

from changeover.errors import MisconfiguredError
from changeover.messages import File, is_text

Given: TypeAlias = File | str | Path

LARGEST = 20_000_000
"""Bytes of all files of a message: they are stored in the log, and providers take little more."""
ADVICE = f"and a message takes {LARGEST / 1e6:.0f} MB; give a URL that the model's provider can reach: File(url=…)"
OFFICE = "application/vnd.openxmlformats-officedocument"
EXTENSIONS = {
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
"""Media types that some provider reads, with their file extensions. Other text types are read as text."""
TYPES = {extension: media_type for media_type, extensions in EXTENSIONS.items() for extension in extensions.split()}
SIGNATURES = {
    "image/png": b"\x89PNG\r\n\x1a\n",
    "image/jpeg": b"\xff\xd8\xff",
    "image/gif": b"GIF8",
    "image/webp": b"RIFF",
    "application/pdf": b"%PDF-",
}
"""First bytes of a file. Providers refuse a request with a mislabelled image, and so the rest of the conversation."""


class _Fault(Exception):
    """A file cannot be attached; the message says why."""


def attached(given: Sequence[Given]) -> tuple[File, ...]:
    """Read and check files, and add their media types; raises MisconfiguredError with all faults."""
    if isinstance(given, str | bytes | Path | File) or not isinstance(given, Sequence):
        raise MisconfiguredError(f"files must be a list, not {type(given).__name__}; put a single file in a list too")
    files: list[File] = []
    faults: list[str] = []
    for each in given:
        try:
            files.append(_checked(_as_file(each)))
        except _Fault as fault:
            faults.append(str(fault))
    if (size := sum(len(file.data) for file in files)) > LARGEST:
        faults.append(f"the files have {size / 1e6:.1f} MB together, {ADVICE}")
    if faults:
        raise MisconfiguredError(*faults)
    return tuple(files)


def _as_file(given: Given) -> File:
    match given:
        case File():
            return given
        case str() if given.startswith(("http://", "https://")):
            return File(url=given)
        case str() | Path():
            return _read(Path(given))
        case _:
            raise _Fault(f"give a file as a path, a URL or a File, not as {type(given).__name__}")


def _read(path: Path) -> File:
    try:
        about = path.stat()
        if not S_ISREG(about.st_mode) and not S_ISDIR(about.st_mode):
            raise _Fault(f"{str(path)!r} is a device or a pipe, not a file")
        if about.st_size > LARGEST:
            raise _Fault(f"the file {str(path)!r} has {about.st_size / 1e6:.1f} MB, {ADVICE}")
        # A file name may contain bytes that are not UTF-8.
        return File(path.read_bytes(), name=path.name.encode(errors="replace").decode())
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise _Fault(f"the file {str(path)!r} cannot be read: {reason}") from error


def _checked(file: File) -> File:
    if bool(file.data) == bool(file.url):
        named = f"the file {file.name!r}" if file.name else "a File"
        raise _Fault(f"{named} has both data and a url" if file.url else f"{named} is empty")
    return _remote(file) if file.url else _local(file)


def _remote(file: File) -> File:
    parts = urlsplit(file.url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise _Fault(f"{file.url!r} is not a URL that a model can read; give one with https://, or a path")
    name = file.name or unquote(PurePosixPath(parts.path).name)
    media_type = file.media_type or _by_name(name)
    if not media_type:
        raise _Fault(f"the media type of {file.url} is unknown; give it: File(url=…, media_type='image/png')")
    _check_type(name or file.url, media_type)
    return replace(file, media_type=media_type, name=name)


def _local(file: File) -> File:
    found = _by_signature(file.data)
    media_type = file.media_type or found or _by_name(file.name) or _text_if(file.data)
    named = file.name or "a File"
    if not media_type:
        raise _Fault(f"the media type of {named} is unknown; give it: File(data, 'image/png')")
    _check_type(named, media_type)
    if media_type in SIGNATURES and media_type != found:
        raise _Fault(f"{named} is not {media_type}{f', but {found}' if found else ''}")
    if is_text(media_type) and not _text_if(file.data):
        raise _Fault(f"{named} should be {media_type}, but it is not UTF-8 text")
    return replace(file, media_type=media_type)


def _check_type(named: str, media_type: str) -> None:
    if media_type not in EXTENSIONS and not is_text(media_type):
        raise _Fault(f"{named} is {media_type}, which no model reads; they read: {', '.join(sorted(TYPES))}, and text")


def _by_name(name: str) -> str:
    return TYPES.get(PurePosixPath(name).suffix.lower().lstrip("."), "")


def _by_signature(data: bytes) -> str:
    for media_type, signature in SIGNATURES.items():
        if data.startswith(signature) and (signature != b"RIFF" or data[8:12] == b"WEBP"):
            return media_type
    return ""


def _text_if(data: bytes) -> str:
    try:
        return "" if "\0" in data.decode() else "text/plain"
    except UnicodeDecodeError:
        return ""
