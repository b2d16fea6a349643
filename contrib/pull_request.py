# Copyright 2026 The hyper_parallel partial-sound fork authors
#
# Licensed under the Apache License, Version 2.0 (the "License");
# you may not use this file except in compliance with the License.
# You may obtain a copy of the License at
#
#     http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS,
# WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
# See the License for the specific language governing permissions and
# limitations under the License.
"""Fill a pull-request template that a checkout carries; nothing of it is kept here but the roles of its sections."""
from __future__ import annotations

import re
from dataclasses import dataclass, field

from contrib.checkout import Checkout

_FOLDERS = (".gitcode", ".github", ".gitee", "docs", ".")
_COMMENT = re.compile(r"<!--.*?-->\n?", re.DOTALL)
_HEADING = re.compile(r"^\s*(#{1,6}\s+\S.*|\*\*[^*]+\*\*[::]?\s*)$")
# The role of a section, by words of its heading; the first that matches.
_ROLES = (("checklist", r"check-?\s?list|自检|检查"), ("kind", r"\btype\b|\bkind\b|类型"), ("issue", r"issue|关联"),
          ("tests", r"\btests?\b|测试|验证"), ("why", r"\bwhy\b|reason|原因"), ("what", r"\bwhat\b|descri|描述|说明|内容"))
# Boxes that the text itself justifies; the others are for a person.
_JUSTIFIED = re.compile(r"\btests?\b|evidence|verif|测试|验证", re.IGNORECASE)
_BOX = re.compile(r"^(\s*[-*]\s*)\[ \](.*)$")


@dataclass(frozen=True)
class Content:
    """What goes into a pull request.

    Attributes:
        kind: label of its type.
        issue: number of the issue that it fixes.
        why: Markdown text.
        what: Markdown text.
        tests: Markdown text.
    """

    kind: str
    issue: int
    why: str
    what: str
    tests: str


@dataclass
class Body:
    """A filled template.

    Attributes:
        text: the whole body.
        open_boxes: boxes left for a person to tick.
        template: path of the template; empty when the checkout has none.
    """

    text: str
    open_boxes: list = field(default_factory=list)
    template: str = ""


def template_of(checkout: Checkout) -> str:
    """Path of the checkout's pull-request template; empty when there is none."""
    for folder in _FOLDERS:
        found = sorted(path for path in (checkout.root / folder).glob("*") if path.is_file()
                       and path.name.upper().startswith("PULL_REQUEST_TEMPLATE") and path.suffix == ".md")
        if found:
            return found[0].relative_to(checkout.root).as_posix()
    return ""


def fill(checkout: Checkout, content: Content) -> Body:
    """The body of the pull request, in the form of the checkout's own template."""
    template = template_of(checkout)
    found = sections(_COMMENT.sub("", checkout.read(template))) if template else []
    roles = {role for role, _ in found}
    body, parts = Body("", template=template), []
    for role, lines in found:
        parts.append("\n".join(_filled(role, lines, roles, content, body)).strip("\n"))
    missing = [role for role in ("why", "what", "issue", "tests") if not _covered(role, roles)]
    parts += [f"## {role.capitalize()}\n\n{_text(role, roles, content)}" for role in missing]
    body.text = "\n\n".join(filter(None, parts)) + "\n"
    return body


def sections(text: str) -> list[tuple]:
    """(role, lines) per section; lines before the first heading have role None."""
    found: list[tuple] = [(None, [])]
    for line in text.splitlines():
        if _HEADING.match(line):
            role = next((name for name, words in _ROLES if re.search(words, line, re.IGNORECASE)), None)
            found.append((role, [line]))
        else:
            found[-1][1].append(line)
    return found


def _covered(role: str, roles) -> bool:
    # Many templates ask for what and why under one heading.
    return role in roles or (role in ("why", "what") and bool(roles & {"why", "what"}))


def _text(role: str, roles, content: Content) -> str:
    if role in ("why", "what") and not {"why", "what"} <= roles:
        return f"{content.why}\n\n{content.what}"
    return f"Fixes #{content.issue}" if role == "issue" else getattr(content, role)


def _filled(role, lines: list[str], roles, content: Content, body: Body) -> list[str]:
    if role is None:
        return lines
    if role == "checklist":
        return [_ticked(line, body) for line in lines]
    if role == "kind":
        return _replaced(lines, r"^\s*/kind\b.*", f"/kind {content.kind}")
    if role == "issue":
        return _replaced(lines, r"^\s*[Ff]ix(es)?:?\s*#.*", f"Fixes #{content.issue}")
    return _inserted(lines, _text(role, roles, content))


def _ticked(line: str, body: Body) -> str:
    box = _BOX.match(line)
    if not box:
        return line
    if _JUSTIFIED.search(box[2]):
        return f"{box[1]}[x]{box[2]}"
    body.open_boxes.append(box[2].strip())
    return line


def _replaced(lines: list[str], pattern: str, text: str) -> list[str]:
    """The lines with the first one of this form replaced; with the text behind them when there is none."""
    for i, line in enumerate(lines):
        if re.match(pattern, line):
            return [*lines[:i], text, *lines[i + 1:]]
    return _inserted(lines, text)


def _inserted(lines: list[str], text: str) -> list[str]:
    """The section with a text at its end, before a closing rule."""
    rest = list(lines)
    closing: list[str] = []
    while rest and (not rest[-1].strip() or re.fullmatch(r"\s*-{3,}\s*", rest[-1])):
        closing.insert(0, rest.pop())
    return [*rest, "", text, "", *[line for line in closing if line.strip()]]
