"""From our files to theirs."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic_ai.messages import AudioUrl, BinaryContent, DocumentUrl, ImageUrl, UserContent, VideoUrl

from changeover.messages import File
from changeover.models.files import is_text

URLS: dict[str, type[ImageUrl | AudioUrl | VideoUrl]] = {"image": ImageUrl, "audio": AudioUrl, "video": VideoUrl}


def shown(file: File) -> Iterator[UserContent]:
    """A file as a model reads it: what it is called, then what it holds."""
    if file.name:
        yield file.label
    # Some providers know no text but plain text; what kind of text it is stands before it.
    media_type = "text/plain" if is_text(file.media_type) else file.media_type
    if not file.url:
        yield BinaryContent(file.data, media_type=media_type, identifier=file.name or None)
    else:
        kind = URLS.get(media_type.partition("/")[0], DocumentUrl)
        yield kind(file.url, media_type=media_type, identifier=file.name or None)


def prompt(pieces: list[UserContent]) -> str | list[UserContent]:
    """Texts as one text; where files are among them, as one text before, between and after these."""
    content: list[UserContent] = []
    texts: list[str] = []
    for piece in pieces:
        if isinstance(piece, str):
            texts.append(piece)
        else:
            content += [*_joined(texts), piece]
            texts = []
    return [*content, *_joined(texts)] if content else "\n\n".join(texts)


def _joined(texts: list[str]) -> list[str]:
    # One part: some providers run parts together, and then a user's words would stand in a quotation's last line.
    joined = "\n\n".join(text for text in texts if text)
    return [joined] if joined else []
