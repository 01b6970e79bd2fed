"""Each format takes what its standard takes, and nothing near it."""

from __future__ import annotations

import pytest

from pytest_evarness.domains.agents.formats import FORMATS

GOOD = {
    "date": "2024-02-29 2000-02-29 0000-01-01 9999-12-31",
    "time": "10:31:00Z 23:59:60Z 08:29:60.5-15:30 23:59:60+00:00 10:31:00.123+05:30 10:31:00z",
    "date-time": "2024-02-29T10:31:00Z 2024-02-29t10:31:00-00:00",
    "duration": "P1Y P1Y2M3DT4H5M6S PT1H P4W PT0S P1DT1M",
    "email": 'a@b.c joe.bloggs+x@example.com a@localhost a@[127.0.0.1] a@[IPv6:::1] "a@b"@c.d',
    "hostname": "localhost a-b.example 1.2.3 xn--a",
    "ipv4": "0.0.0.0 255.255.255.255",
    "ipv6": ":: ::1 2001:db8::ff 1:2:3:4:5:6:7:8 ::ffff:1.2.3.4",
    "json-pointer": "/a /a~0b~1c/0 /",
    "uri": "https://x.example/a?b=%20#c urn:isbn:1 mailto:a@b.c http://[::1]:80/ file:///a a:",
    "uri-reference": "/a ../b?c#d //x.example/a https://x.example # ?a a/b:c",
    "uuid": "123e4567-e89b-12d3-a456-426614174000 123E4567-E89B-12D3-A456-426614174000",
}
BAD = {
    "date": "2023-02-29 1900-02-29 2024-13-01 2024-00-01 2024-01-00 2024-1-1 20240101 2024-04-31",
    "time": "10:31:00 24:00:00Z 10:60:00Z 10:31:60Z 10:31Z 10:31:00+24:00 10:31:00+0530",
    "date-time": "2024-02-29 2024-02-30T10:31:00Z 2024-02-29_10:31:00Z 2024-02-29T10:31:00",
    "duration": "P PT P1S 1Y P1Y2W P1YT PT1 P1Y3D PT1H1S",
    "email": "a a@ @b a@b@c .a@b a..b@c a@-b a@b_c a@[1] a@[IPv6:1]",
    "hostname": "-a a- a..b a. .a a_b",
    "ipv4": "1.2.3 1.2.3.4.5 256.0.0.1 01.0.0.1 1.2.3.4a 1.2.3.\u0664 0x1.0.0.1",
    "ipv6": "1 12345:: ::1%eth0 1:2:3:4:5:6:7:8:9 ::g ::1.2.3 ::\u0661",
    "json-pointer": "a /a~ /~2 #/a",
    "uri": "/a //x.example a http://[::1 http://[1]/ http://a b: \u00e9:a a:\u00e9 a:%zz a:| 1:a",
    "uri-reference": "\\\\a a^b %zz 1:b http://[x]/ //a:b:c/",
    "uuid": "123e4567e89b12d3a456426614174000 123e4567-e89b-12d3-a456-42661417400g 1-2-3-4-5",
}


@pytest.mark.parametrize("name", FORMATS)
def test_what_has_the_format_and_what_has_not(name: str) -> None:
    has = FORMATS[name]
    assert [text for text in GOOD[name].split(" ") if not has(text)] == []
    # "b:" is the one good word of a bad row: with nothing else the row would prove nothing.
    wrong = [text for text in BAD[name].split(" ") if has(text)]
    assert wrong == (["http://a", "b:"] if name == "uri" else [])


@pytest.mark.parametrize("name", FORMATS)
def test_no_text_is_long_enough_to_hang(name: str) -> None:
    # A search that goes back would take years; each of these is a moment.
    for text in ("a", "1", "/", "a.", "a@", "[", "%20", "P1Y", ":", "-", '"', "\\"):
        for end in ("", "!", "\n", "|"):
            FORMATS[name](text * 20_000 + end)


@pytest.mark.parametrize("name", sorted(FORMATS.keys() - {"json-pointer"}))
def test_no_format_lets_a_line_break_follow(name: str) -> None:
    assert not any(FORMATS[name](f"{text}\n") for text in GOOD[name].split(" "))
