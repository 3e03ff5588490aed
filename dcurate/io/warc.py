"""Records of web archives: WARC (also WET and WAT) and ARC, compressed or plain, whole or damaged."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass
from typing import BinaryIO, NamedTuple

from dcurate.core.foreign import whole_number
from dcurate.io.warc_http import header_fields
from dcurate.io.warc_members import Archive, Piece, pieces

#: A record with more content than this is passed over, and counted as damage.
LARGEST_RECORD = 2**28

_LONGEST_HEAD = 2**20
_LOOK_AHEAD = 2**13
_TRIM = 2**22
#: Bytes that may be looked through in heads that turn out to be none, for each byte of the archive and beyond that. A
#: record may begin within such a head, so its bytes are looked at again; without a bound 1 MB of them takes minutes.
_IN_VAIN, _IN_VAIN_MORE = 4, 2**22
_BLANK = b"\r\n"
_WARC = rb"WARC/\d\.\d+[ \t]*\r?\n(?=[!-9;-~]{1,80}[ \t]*:)"
_ARC = (
    rb"(?P<url>[A-Za-z][A-Za-z0-9+.-]*:[^\n]{0,8000}?) (?P<ip>[0-9A-Fa-f.:]+|-) (?P<date>\d{14}|\d{12}|\d{8}) "
    rb"(?P<mime>[^\s]{1,256})(?P<more>(?: [^ \n]*){5})? (?P<length>\d{1,15})[ \t]*\r?\n"
)
_VERSION = re.compile(_WARC)
_ARC_LINE = re.compile(_ARC)
_BEGIN = re.compile(rb"(?:%b|%b)" % (_WARC, _ARC))
_FOUND = re.compile(rb"%b|(?<=\n)%b" % (_WARC, _ARC))
_BLANKS = re.compile(rb"[\r\n]*")
_END_OF_HEAD = re.compile(rb"\n\r?\n")


class Damage(NamedTuple):
    """A place of an archive at which something was lost.

    Args:
        offset: byte of the file at which the lost record begins (compressed: the member that it is in).
        reason: what is wrong, in words.
        url: address of the lost record, where it could be read.
    """

    offset: int
    reason: str
    url: str = ""


@dataclass(frozen=True, slots=True)
class Record:
    """One record of an archive.

    Args:
        offset: byte of the file at which it begins; in a compressed file, at which the member begins that holds it.
        kind: its type: ``"response"``, ``"request"``, ``"conversion"``, ``"warcinfo"``, ... An ARC record is a
            response if it holds HTTP, the file's own description is ``"warcinfo"``, any other a resource.
        url: address of the resource that the record describes; empty if it names none.
        date: when it was captured, as ISO 8601 in UTC.
        headers: the record's own headers by their names in lower case; of an ARC record, its fields under the names
            that WARC has for them.
        content: the bytes after the headers. Of a response that is the HTTP message; see
            `dcurate.io.warc_http.response`.
    """

    offset: int
    kind: str
    url: str
    date: str
    headers: Mapping[str, str]
    content: bytes

    @property
    def id(self) -> str:
        """The record's identifier without brackets and ``urn:uuid:``; empty if it has none."""
        return self.headers.get("warc-record-id", "").strip("<> ").removeprefix("urn:uuid:")


def iterate_records(
    file: BinaryIO, start: int = 0, stop: int | None = None, largest: int = LARGEST_RECORD
) -> Iterator[Record | Damage]:
    r"""Every record of an archive in order, and every place at which something was lost.

    The format (WARC or ARC), and whether and how the file is compressed (gzip, Zstandard, LZ4, bzip2, xz), are seen
    from the content. Damage is never an error: reading goes on at the next record, or the next compressed member. A
    record is given only if its length, what follows it, and the checksum of the member that it ends are right.
    Memory holds a record at a time.

    Args:
        file: open for reading bytes; it is read once from front to back, and must be seekable only for ``start``.
        start: records that begin before this byte of the file are left out.
        stop: so are those that begin at or after it. Ranges that meet give every record once.
        largest: content of more bytes is passed over as damage.

    Raises:
        ResourceError: the package that unpacks the file is not installed.
        OSError: the file cannot be read.

    Examples:
        >>> from io import BytesIO
        >>> lines = "WARC/1.0", "WARC-Type: resource", "WARC-Target-URI: urn:a", "Content-Length: 2", "", "hi", "", ""
        >>> record = "\r\n".join(lines).encode()
        >>> [(each.url, each.content) for each in iterate_records(BytesIO(record))]
        [('urn:a', b'hi')]
        >>> list(iterate_records(BytesIO(record[:-6])))
        [Damage(offset=0, reason='the file ends within the record', url='urn:a')]
    """
    begin = max(start - 1, 0)  # the byte before a range may end the line before a record
    archive = Archive(file, begins_record, begin, _holds_record)
    plain = archive.packing is None
    stream = pieces(archive, begin if plain else start, stop)
    return _RecordReader(_Tape(stream, plain), stop, largest).records(start)


def begins_record(data: bytes | bytearray) -> bool:
    """Whether the bytes begin a record of WARC or ARC; blank lines may come before it."""
    return _BEGIN.match(data.lstrip(_BLANK)) is not None


def _holds_record(data: bytes) -> bool:
    """Whether a whole record is in the bytes."""
    reader = _RecordReader(_Tape(iter([Piece(data, 0, first=True)]), plain=True), None, len(data))
    return any(isinstance(record, Record) for record in reader.records(0))


class _Tape:
    """The content of an archive as *cells*: spans without a gap, each starting with a member that begins a record.

    Attributes:
        data: what of the cell was read and is still of use.
        at: how far into ``data`` the cell was taken in.
        damage: why the cell ended, if it did not end well.
        over: whether nothing follows in the file.
        size: bytes read in all cells.
    """

    def __init__(self, stream: Iterator[Piece], plain: bool) -> None:
        self.data = bytearray()
        self.at = 0
        self.damage = ""
        self.over = False
        self.size = 0
        self.plain = plain
        self._stream = stream
        self._ahead: Piece | None = None
        self._ended = True
        self._places: deque[tuple[int, int]] = deque()

    def next_cell(self) -> bool:
        """Advance to the next cell; return False at the end."""
        piece = self._ahead or (None if self.over else next(self._stream, None))
        if piece is None:
            self.over = True
            return False
        self._ahead = None
        self._places.clear()
        self.data, self.at = bytearray(), 0
        self._add(piece)
        self.damage, self._ended = piece.damage, bool(piece.damage)
        return True

    def more(self) -> bool:
        """Read on in the cell; False if it has ended."""
        if self._ended:
            return False
        piece = next(self._stream, None)
        if piece is None or piece.damage or (piece.first and begins_record(piece.data)):
            self._ended, self.over = True, piece is None
            if piece and (piece.data or piece.first):
                self._ahead = piece
            elif piece:
                self.damage = piece.damage
            return False
        self._add(piece)
        return True

    def has(self, end: int) -> bool:
        """Whether the cell reaches so far, in ``data``; reads as much."""
        while len(self.data) < end:
            if not self.more():
                return False
        return True

    def after_blanks(self, at: int) -> int:
        """The first place from one on that is no end of a line."""
        match = _BLANKS.match(self.data, at)
        return match.end() if match else at

    def offset(self, at: int) -> int:
        """Return the file offset of the member with a position of `data`; in a plain file, of the position itself."""
        begin, offset = next((place for place in reversed(self._places) if place[0] <= at), self._places[0])
        return offset + (at - begin if self.plain else 0)

    def trim(self) -> None:
        """Discard the consumed bytes, except for the last."""
        if self.at < _TRIM:
            return
        gone = self.at - 1
        while len(self._places) > 1 and self._places[1][0] <= gone:
            self._places.popleft()
        self._places = deque((begin - gone, offset) for begin, offset in self._places)
        del self.data[:gone]
        self.at = 1

    def close(self) -> None:
        """There is no further cell."""
        self.over, self._ended, self._ahead = True, True, None

    def _add(self, piece: Piece) -> None:
        if self.plain or piece.first or not self._places:
            self._places.append((len(self.data), piece.offset))
        self.data += piece.data
        self.size += len(piece.data)


class _Head(NamedTuple):
    """The header of a record: the start and length of its content, and the bytes that end the record.

    The type is empty where the content shows it.
    """

    kind: str
    url: str
    date: str
    headers: Mapping[str, str]
    begin: int
    length: int
    ending: bytes


@dataclass
class _RecordReader:
    tape: _Tape
    stop: int | None
    largest: int
    looked: int = 0  # in the tape's data: how far the last head was looked for
    in_vain: int = 0  # bytes looked through in heads that were none

    def records(self, start: int) -> Iterator[Record | Damage]:
        tape = self.tape
        reported = start > 0  # what comes before the first record of a range belongs to the range before it
        if reported and tape.plain and tape.next_cell():
            tape.at = 1
            self._seek()
            yield from self._of_cell(reported)
        while tape.next_cell():
            reported = yield from self._of_cell(reported)

    def _of_cell(self, reported: bool) -> Generator[Record | Damage, None, bool]:
        """The records of a cell; returns whether its end is damage that was reported.

        Args:
            reported: whether damage before the next record was reported already.
        """
        while self._at_something():
            if not self._at_record():
                if not reported:
                    yield Damage(self.tape.offset(self.tape.at), "no record begins here")
                reported = True
                self._seek()
            elif self._is_over():
                self.tape.close()
                return True
            else:
                record = self._record()
                yield record
                reported = isinstance(record, Damage)
        if self.tape.damage and not reported:
            yield Damage(self.tape.offset(0), self.tape.damage)
            reported = True
        return reported

    def _at_something(self) -> bool:
        """Go over blank lines; False if the cell ends."""
        tape = self.tape
        while True:
            tape.at = tape.after_blanks(tape.at)
            if tape.at < len(tape.data):
                tape.trim()
                return True
            if not tape.more():
                return False

    def _at_record(self) -> bool:
        self.tape.has(self.tape.at + _LOOK_AHEAD)
        return _BEGIN.match(self.tape.data, self.tape.at) is not None

    def _is_over(self) -> bool:
        return self.stop is not None and self.tape.offset(self.tape.at) >= self.stop

    def _seek(self) -> None:
        """Go to where the next record begins, or to the end of the cell."""
        tape = self.tape
        while True:
            match = _FOUND.search(tape.data, tape.at)
            if match and (tape.has(match.end() + 1) or match.end() == len(tape.data)):
                tape.at = match.start()
                return
            tape.at = max(tape.at, len(tape.data) - _LOOK_AHEAD)
            tape.trim()
            size = len(tape.data)
            if not tape.has(size + _LOOK_AHEAD) and len(tape.data) == size:
                tape.at = size
                return

    def _record(self) -> Record | Damage:
        tape = self.tape
        offset = tape.offset(tape.at)
        head = self._head()
        if isinstance(head, str):
            self._pass_over()
            return Damage(offset, head)
        tape.at = head.begin
        damage = self._damage_of(head)
        if damage:
            return Damage(offset, damage, head.url)
        tape.at = head.begin + head.length
        with memoryview(tape.data) as data:
            content = bytes(data[head.begin : tape.at])
        kind = head.kind or ("response" if content.startswith(b"HTTP/") else "resource")
        return Record(offset, kind, head.url, head.date, head.headers, content)

    def _pass_over(self) -> None:
        """Go on within a head that is none, as a record may begin there, or after it if that has taken too long."""
        tape = self.tape
        self.in_vain += self.looked - tape.at
        spent = self.in_vain > _IN_VAIN * tape.size + _IN_VAIN_MORE
        tape.at = self.looked if spent else tape.at + 1

    def _damage_of(self, head: _Head) -> str:
        """Return the damage of the record; empty if it is whole."""
        tape, end = self.tape, head.begin + head.length
        if head.length > self.largest:
            return f"the record has {head.length} bytes, more than the {self.largest} that are read"
        if not tape.has(end):
            return tape.damage or f"the {'file' if tape.over else 'compressed member'} ends within the record"
        tape.has(end + _LOOK_AHEAD)
        following = tape.data[end : end + _LOOK_AHEAD]
        followed = not following.strip(_BLANK) or begins_record(following) or _BEGIN.match(following, len(head.ending))
        # The next record may be the damaged one. It is this one if it does not end, or others are in it.
        if not followed and (not following.startswith(head.ending) or _FOUND.search(tape.data, head.begin, end + 2)):
            return "the content is longer or shorter than the record says"
        while (end := tape.after_blanks(end)) == len(tape.data):
            if not tape.more():
                return tape.damage
        return ""

    def _head(self) -> _Head | str:
        match = _VERSION.match(self.tape.data, self.tape.at)
        return self._warc_head(match.end()) if match else self._arc_head()

    def _warc_head(self, begin: int) -> _Head | str:
        tape = self.tape
        self.looked = begin - 1
        while (end := _END_OF_HEAD.search(tape.data, self.looked)) is None:
            self.looked = max(len(tape.data) - 2, self.looked)  # less than the longest end
            if len(tape.data) - begin > _LONGEST_HEAD:
                return f"the header does not end within {_LONGEST_HEAD} bytes"
            if not tape.more():
                return tape.damage or "the header does not end"
        self.looked = end.end()
        headers = header_fields(bytes(tape.data[begin : end.start()]))
        length = whole_number(headers.get("content-length"))
        if length is None:
            return f"the header says no length (Content-Length: {headers.get('content-length', '')[:40]!r})"
        url = headers.get("warc-target-uri", "").strip("<> ")
        kind = headers.get("warc-type", "").lower() or "unknown"
        return _Head(kind, url, headers.get("warc-date", ""), headers, end.end(), length, end[0][1:] * 2)

    def _arc_head(self) -> _Head:
        match = _ARC_LINE.match(self.tape.data, self.tape.at)
        assert match is not None, "a line that begins a record is one of WARC or ARC"
        fields = {name: (value or b"").decode(errors="replace") for name, value in match.groupdict().items()}
        date = f"{fields['date']:0<14}"
        date = f"{date[:4]}-{date[4:6]}-{date[6:8]}T{date[8:10]}:{date[10:12]}:{date[12:]}Z"
        headers = {
            "warc-target-uri": fields["url"],
            "warc-date": date,
            "warc-ip-address": fields["ip"],
            "content-type": fields["mime"],
            "content-length": fields["length"],
        }
        kind = "warcinfo" if fields["url"].startswith("filedesc:") else ""
        return _Head(kind, fields["url"], date, headers, match.end(), int(fields["length"]), b"\n")
