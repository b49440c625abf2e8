"""Files of a user: checked before anything is recorded, stored, and sent to every provider."""

import base64
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai.messages import BinaryContent, ToolReturnPart, UserPromptPart

from changeover import Agent, File, MessageOnly, Team, delegate
from changeover.errors import ConversationNotFound, MisconfiguredError, ModelError
from changeover.messages import Assistant, Call, Message, ToolResult, User
from changeover.models.files import LARGEST
from changeover.models.request import history_for
from changeover.testing import ScriptedModel, delegates, hands_off, says
from tests.models.aimock import Server
from tests.models.provider_script import APIS, scene
from tests.models.team_talk import NAMES, google
from tests.models.wire import Wire, wired

Opened = Callable[..., Team]
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
PDF = b"%PDF-1.4\n%%EOF\n"
JPEG = b"\xff\xd8\xff\xe0 and so on"
PNG_64, PDF_64 = base64.b64encode(PNG).decode(), base64.b64encode(PDF).decode()
ADDRESS = "https://example.org/a%20cat.webp"


@pytest.fixture
def wire(server: Server, providers: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Wire]:
    with wired(server.url) as wire:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{wire.url}/v1")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", wire.url)
        yield wire


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, data in {"dot.png": PNG, "bill.pdf": PDF, "notes.toml": b"a = 1\n"}.items():
        (tmp_path / name).write_bytes(data)
    return tmp_path


async def ask(wire: Wire, opened: Opened, api: str, text: str, **options: Any) -> dict[str, Any]:
    """Have a provider's client ask, and return the request as it was sent."""
    if api == "google":
        model, client = google(Server(wire.url))
        try:
            await opened([Agent("a", model=model)]).run(text, **options)
        finally:
            await client.aio.aclose()
            client.close()
    else:
        await opened([Agent("a", model=NAMES[api])]).run(text, **options)
    return wire.bodies[-1]


IMAGES = {
    "chat": {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG_64}"}},
    "responses": {"type": "input_image", "image_url": f"data:image/png;base64,{PNG_64}", "detail": "auto"},
    "anthropic": {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG_64}},
    "google": {"inlineData": {"data": PNG_64, "mimeType": "image/png"}},
}
DOCUMENTS = {
    "chat": {
        "type": "file",
        "file": {"filename": "filename.pdf", "file_data": f"data:application/pdf;base64,{PDF_64}"},
    },
    "responses": {
        "type": "input_file",
        "filename": "filename.pdf",
        "file_data": f"data:application/pdf;base64,{PDF_64}",
    },
    "anthropic": {
        "type": "document",
        "source": {"type": "base64", "media_type": "application/pdf", "data": PDF_64},
    },
    "google": {"inlineData": {"data": PDF_64, "mimeType": "application/pdf"}},
}
LINKS = {
    "chat": {"type": "image_url", "image_url": {"url": ADDRESS}},
    "responses": {"type": "input_image", "image_url": ADDRESS, "detail": "auto"},
    "anthropic": {"type": "image", "source": {"type": "url", "url": ADDRESS}},
}


def parts_of(body: dict[str, Any]) -> list[dict[str, Any]]:
    """The parts of the only message of a request, in whichever provider's words."""
    if "contents" in body:
        [message] = body["contents"]
        return [_spelled(part) for part in message["parts"]]
    [message] = [each for each in body.get("messages") or body["input"] if each["role"] == "user"]
    content: list[dict[str, Any]] = message["content"]
    return content


def _spelled(part: dict[str, Any]) -> dict[str, Any]:
    """A part of Google's in one spelling: it takes two for names, and two alphabets for bytes."""
    if "inlineData" not in part:
        return part
    held = part["inlineData"]
    data = held["data"].replace("-", "+").replace("_", "/")
    return {"inlineData": {"data": data, "mimeType": held.get("mimeType") or held["mime_type"]}}


@pytest.mark.parametrize("api", APIS)
async def test_images_and_documents_go_to_every_provider_in_its_own_words(
    wire: Wire, opened: Opened, folder: Path, api: str
):
    said = scene("text", api, "plain")
    files = [folder / "dot.png", str(folder / "bill.pdf"), File(PNG)]
    body = await ask(wire, opened, api, said, files=files)
    first, image, name, document, unnamed = parts_of(body)
    assert first["text"] == f"{said}\n\n[dot.png (image/png)]"
    assert name["text"] == "[bill.pdf (application/pdf)]"
    assert (image, document, unnamed) == (IMAGES[api], DOCUMENTS[api], IMAGES[api])


@pytest.mark.parametrize("api", LINKS)
async def test_an_address_is_sent_as_it_is(wire: Wire, opened: Opened, api: str):
    body = await ask(wire, opened, api, scene("text", api, "plain"), files=[ADDRESS])
    text, image = parts_of(body)
    assert text["text"].endswith('["a cat.webp" (image/webp)]')
    assert image == LINKS[api]


@pytest.mark.parametrize("api", APIS)
async def test_a_text_of_any_kind_can_be_read_by_all(wire: Wire, opened: Opened, folder: Path, api: str):
    body = await ask(wire, opened, api, scene("text", api, "plain"), files=[folder / "notes.toml"])
    first, text = parts_of(body)
    assert first["text"].endswith("[notes.toml (text/plain)]")
    assert "a = 1" in str(text) or base64.b64encode(b"a = 1\n").decode() in str(text)


async def test_files_survive_a_restart_and_a_handoff_to_another_provider(wire: Wire, opened: Opened, folder: Path):
    store = f"sqlite:///{folder / 'kept.db'}"

    def team() -> Team:
        return opened(
            [
                Agent("triage", instructions="You are triage.", model=NAMES["chat"]),
                Agent("billing", instructions="You are billing.", model=NAMES["anthropic"]),
            ],
            store=store,
        )

    first = team()
    result = await first.run(scene("showing", "chat", "plain"), files=[folder / "dot.png"], conversation="ada")
    assert (result.output, result.final_agent) == ("I see it.", "billing")
    assert IMAGES["chat"] in parts_of(wire.bodies[0])
    assert IMAGES["anthropic"] in parts_of(wire.bodies[1])
    await first.close()
    (folder / "dot.png").unlink()
    await team().run(scene("after", "chat", "plain"), conversation="ada")
    [asked, *_] = wire.bodies[-1]["messages"]
    assert IMAGES["anthropic"] in asked["content"]


async def test_the_table_of_messages_shows_the_files_of_a_message(folder: Path):
    model = ScriptedModel({"a": [says("A dot."), says("A bill.")]})
    async with Team([Agent("a")], model=model, store=f"sqlite:///{folder / 'kept.db'}") as team:
        await team.run("What is this?", files=[folder / "dot.png", ADDRESS])
        await team.run("", files=[folder / "bill.pdf"])
    with sqlite3.connect(folder / "kept.db") as database:
        found = database.execute("SELECT content FROM messages WHERE kind = 'user_message' ORDER BY seq").fetchall()
    database.close()
    assert [text for (text,) in found] == [
        'What is this?\n[dot.png (image/png)]\n["a cat.webp" (image/webp)]',
        "[bill.pdf (application/pdf)]",
    ]


async def test_every_agent_that_reads_the_request_sees_its_files(folder: Path):
    model = ScriptedModel(
        {
            "a": [delegates("b", "Look at it"), hands_off("c", "Go on")],
            "b": [says("A dot.")],
            "c": [says("Done.")],
        }
    )
    members = [Agent("a", handoffs=["c", delegate("b")]), Agent("b"), Agent("c")]
    await Team(members, model=model, strategy=MessageOnly()).run("What is this?", files=[folder / "dot.png"])
    seen = {
        request.agent: [file.data for each in request.messages if isinstance(each, User) for file in each.files]
        for request in model.requests
    }
    assert seen == {"a": [PNG], "b": [PNG], "c": [PNG]}


async def test_a_file_that_a_provider_cannot_read_is_told_at_once(wire: Wire, opened: Opened):
    film = File(b"film", "video/mp4", "film.mp4")
    for api in ("chat", "responses", "anthropic"):
        with pytest.raises(ModelError, match=r"cannot read a file of this kind") as caught:
            await ask(wire, opened, api, "Hello", files=[film])
        assert caught.value.result is not None
        assert caught.value.result.ledger.retries == 0
    sheet = File(b"PK", "application/vnd.ms-excel", "sheet.xls")
    with pytest.raises(ModelError, match=r"cannot read a file of this kind"):
        await ask(wire, opened, "anthropic", "Hello", files=[sheet])
    song = File(b"song", "audio/ogg", "song.ogg")
    with pytest.raises(ModelError, match=r"cannot be asked this way"):
        await ask(wire, opened, "chat", "Hello", files=[song])
    assert wire.bodies == []


@pytest.mark.parametrize(
    ("given", "media_type"),
    [
        (File(PNG), "image/png"),
        (File(JPEG, name="misnamed.png"), "image/jpeg"),
        (File(b"RIFF1234WEBP", name="x"), "image/webp"),
        (File(b"RIFF1234WAVE", name="x.wav"), "audio/wav"),
        (File(b"a,b\n", name="x.CSV"), "text/csv"),
        (File("größe".encode(), name="README"), "text/plain"),
        (File(b"x", "text/x-python"), "text/x-python"),
        (File(b"{}", "application/ld+json"), "application/ld+json"),
        (File(url="https://example.org/?id=7", media_type="application/pdf"), "application/pdf"),
        ("https://example.org/a.PNG?size=2", "image/png"),
    ],
)
async def test_the_media_type_of_a_file_follows_from_its_content_or_name(given: Any, media_type: str):
    model = ScriptedModel({"a": [says("I see.")]})
    await Team([Agent("a")], model=model).run("What is this?", files=[given])
    [said] = model.requests[0].messages
    assert isinstance(said, User)
    assert [file.media_type for file in said.files] == [media_type]


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ("nix.png", "the file 'nix.png' cannot be read: No such file or directory"),
        (Path(), "the file '.' cannot be read: Is a directory"),
        ("nul\0.png", "cannot be read: embedded null byte"),
        ("/dev/zero", "'/dev/zero' is a device or a pipe, not a file"),
        (7, "give a file as a path, a URL or a File, not as int"),
        (File(), "a File is empty"),
        (File(name="x.png"), "the file 'x.png' is empty"),
        (File(PNG, url="https://example.org/x.png"), "has both data and a url"),
        (File(b"\0\1", name="x.bin"), "the media type of x.bin is unknown; give it: File(data, 'image/png')"),
        (File(b"BM..", "image/bmp", "x.bmp"), "x.bmp is image/bmp, which no model reads; they read: 3gp, aac, "),
        (File(JPEG, "image/png", "x.png"), "x.png is not image/png, but image/jpeg"),
        (File(b"text", name="x.pdf"), "x.pdf is not application/pdf"),
        (File(b"\xff\xfe", name="x.txt"), "x.txt should be text/plain, but it is not UTF-8 text"),
        (File(url="ftp://example.org/x.png"), "'ftp://example.org/x.png' is not a URL that a model can read"),
        ("https:///x.png", "'https:///x.png' is not a URL that a model can read"),
        (
            "https://example.org/x",
            "the media type of https://example.org/x is unknown; give it: File(url=…, media_type=",
        ),
        (File(b"x" * (LARGEST + 1)), "the files have 20.0 MB together, and a message takes 20 MB"),
    ],
)
async def test_a_file_that_cannot_be_attached_is_refused_before_anything_is_recorded(given: Any, fault: str):
    team = Team([Agent("a")], model=ScriptedModel({"a": []}))
    with pytest.raises(MisconfiguredError) as told:
        await team.run("What is this?", files=[given], conversation="ada")
    assert fault in str(told.value)
    with pytest.raises(ConversationNotFound):
        await team.history("ada")


async def test_a_file_that_is_too_large_is_not_read(tmp_path: Path):
    film = tmp_path / "film.mp4"
    with film.open("wb") as file:
        file.truncate(10**12)
    with pytest.raises(MisconfiguredError, match=r"film.mp4' has 1000000.0 MB, and a message takes 20 MB"):
        await Team([Agent("a")], model=ScriptedModel({"a": []})).run("What is this?", files=[film])


async def test_all_faults_of_files_are_reported_together():
    team = Team([Agent("a")], model=ScriptedModel({"a": []}))
    with pytest.raises(MisconfiguredError) as told:
        await team.run("What is this?", files=["nix.png", File()])
    assert len(told.value.faults) == 2
    alone: Any = "nix.png"
    with pytest.raises(MisconfiguredError, match="files must be a list, not str; put a single file in a list too"):
        await team.run("What is this?", files=alone)


def test_the_repr_of_a_file_does_not_show_its_content():
    assert (
        repr(File(PNG, "image/png", "dot.png")) == f"File(<{len(PNG)} bytes>, media_type='image/png', name='dot.png')"
    )
    assert repr(File(url=ADDRESS)).startswith(f"File(url={ADDRESS!r}")


def test_the_files_of_a_tool_result_are_given_with_it_and_with_its_quotation():
    picture = File(PNG, "image/png")
    called = Assistant("look", calls=(Call("c1", "snap"),))
    messages: list[Message] = [
        User("go"),
        called,
        ToolResult("c1", "snap", "look", "a picture\n[a file (image/png)]", files=(picture,)),
    ]
    [*_, own] = history_for(messages, "look", ())
    [part] = own.parts
    assert isinstance(part, ToolReturnPart)
    assert [file.data for file in part.files if isinstance(file, BinaryContent)] == [PNG]
    assert isinstance(part.content, list)
    assert part.content[0] == "a picture\n[a file (image/png)]"
    [*_, quoted] = history_for(messages, "other", ())
    [prompt] = quoted.parts
    assert isinstance(prompt, UserPromptPart)
    assert [piece.data for piece in prompt.content if isinstance(piece, BinaryContent)] == [PNG]
