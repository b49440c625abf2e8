"""The docs site: its reference is that of the code, it builds without warnings, and its pages need no other host."""

import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

import pytest

from tests.docs.reference_pages import COMMAND, FOLDER, MODULES, PAGES, ROOT, generated, public_names

LOADED = {"img", "script", "link", "iframe", "source", "video", "audio", "embed", "input"}
"""Tags whose address a browser loads by itself."""
FETCHES = re.compile(r"class=\"[^\"]*\b(?:mermaid|glightbox|pyodide)\b|data-md-component=\"source\"")
"""Elements for which the script of the theme fetches from another host: diagrams, lightboxes, consoles, sources."""


class Page(HTMLParser):
    """The anchors of a built page, and the addresses in it, each with its tag."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.addresses: list[tuple[str, str]] = []
        self.feed(file.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("id", "name") and value:
                self.anchors.add(value)
            if name in ("src", "href", "data", "poster") and value is not None:
                self.addresses.append((tag, value))


def built(at: Path) -> Path:
    """The site, built of a copy as `make docs` builds it."""
    shutil.copytree(ROOT / "docs", at / "docs")
    shutil.copy(ROOT / "zensical.toml", at)
    (at / "src").symlink_to(ROOT / "src")
    command = [str(Path(sys.executable).with_name("zensical")), "build", "--clean", "--strict"]
    done = subprocess.run(command, cwd=at, capture_output=True, encoding="utf-8", timeout=170, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return at / "site"


def broken(site: Path) -> list[str]:
    """The links that lead nowhere, each behind its page."""
    pages = {f"/{file.relative_to(site).as_posix()}": Page(file) for file in site.rglob("*.html")}
    found = []
    for path, page in pages.items():
        for _, address in page.addresses:
            target = urlsplit(urljoin(f"http://site{path}", address))
            if target.netloc != "site" or target.scheme != "http":
                continue
            file = unquote(target.path) + ("index.html" if target.path.endswith("/") else "")
            missing = not (site / file[1:]).is_file()
            if missing or (target.fragment and unquote(target.fragment) not in pages[file].anchors):
                found.append(f"{path}: {address}")
    return found


def foreign(site: Path) -> list[str]:
    """What pages, style sheets and the script of the theme load from other hosts."""
    found = [
        f"{file.relative_to(site)}: {address}"
        for file in site.rglob("*.html")
        for tag, address in Page(file).addresses
        if tag in LOADED and urlsplit(address).netloc
    ]
    for file in [*site.rglob("*.css"), *site.rglob("*.html")]:
        found += FETCHES.findall(file.read_text())
        found += re.findall(r"(?:@import|url\()\s*[\"']?((?:https?:)?//[^\"')]+)", file.read_text())
    return found


@pytest.mark.timeout(180)
def test_the_site_builds_strictly_and_every_link_leads_somewhere_without_another_host(tmp_path: Path):
    site = built(tmp_path)
    assert broken(site) == []
    assert foreign(site) == []
    reference = Page(site / "reference/python/index.html").anchors
    names = {f"{module}.{name}" for module in MODULES for name in public_names(import_module(module))}
    assert sorted(names - reference) == []


def test_a_dead_link_and_a_resource_of_another_host_are_noticed(tmp_path: Path):
    (tmp_path / "index.html").write_text(
        '<a href="gone/">x</a><a href="#top">x</a><h1 id="here"></h1><a href="#here">x</a>'
        '<a href="https://example.org">x</a><script src="//cdn.example.org/x.js"></script>'
        '<pre class="mermaid">a</pre>'
    )
    (tmp_path / "style.css").write_text("@import 'https://fonts.example.org/a.css';")
    assert broken(tmp_path) == ["/index.html: gone/", "/index.html: #top"]
    assert foreign(tmp_path) == [
        "index.html: //cdn.example.org/x.js",
        "https://fonts.example.org/a.css",
        'class="mermaid',
    ]


def test_every_page_is_in_the_navigation():
    listed = re.findall(r'= "(\S+\.md)"', (ROOT / "zensical.toml").read_text())
    pages = [file.relative_to(ROOT / "docs").as_posix() for file in (ROOT / "docs").rglob("*.md")]
    assert sorted(listed) == sorted(pages)


@pytest.mark.parametrize("document", PAGES)
def test_a_page_of_the_reference_is_generated_from_the_code_as_it_is(document: str):
    assert (FOLDER / f"{document}.md").read_text() == generated(document), f"the code has changed: run {COMMAND}"


@pytest.mark.parametrize("document", PAGES)
def test_no_cell_of_a_table_of_the_reference_is_empty(document: str):
    rows = re.findall(r"^\|.*\|$", (FOLDER / f"{document}.md").read_text(), re.M)
    assert [row for row in rows if re.search(r"\|\s*\|", row.replace(r"\|", ""))] == []
