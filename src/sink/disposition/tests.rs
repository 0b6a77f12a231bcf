use proptest::prelude::*;

use super::*;

fn of_lines<'a>(lines: impl IntoIterator<Item = &'a [u8]>) -> Option<String> {
    let mut headers = HeaderMap::new();
    for line in lines {
        headers.append(CONTENT_DISPOSITION, HeaderValue::from_bytes(line).unwrap());
    }
    file_name(&headers)
}

fn of(line: &str) -> Option<String> {
    of_lines([line.as_bytes()])
}

/// The cases are those of <http://test.greenbytes.de/tech/tc2231/>, in its order.
#[test]
fn what_the_rfcs_allow_is_read() {
    for (line, name) in [
        ("inline", None),
        ("inline; filename=\"foo.html\"", Some("foo.html")),
        (
            "inline; filename=\"Not an attachment!\"",
            Some("Not an attachment!"),
        ),
        ("attachment", None),
        ("ATTACHMENT", None),
        ("attachment; filename=\"foo.html\"", Some("foo.html")),
        ("attachment; filename=\"f\\oo.html\"", Some("foo.html")),
        (
            r#"attachment; filename="\"quoting\" tested.html""#,
            Some("\"quoting\" tested.html"),
        ),
        (
            "attachment; filename=\"Here's a semicolon;.html\"",
            Some("Here's a semicolon;.html"),
        ),
        (
            "attachment; foo=\"bar\"; filename=\"foo.html\"",
            Some("foo.html"),
        ),
        (
            r#"attachment; foo="\"\\";filename="foo.html""#,
            Some("foo.html"),
        ),
        ("attachment; FILENAME=\"foo.html\"", Some("foo.html")),
        ("attachment; filename=foo.html", Some("foo.html")),
        ("attachment; filename='foo.html'", Some("'foo.html'")),
        (
            "attachment; filename=\"foo-%41.html\"",
            Some("foo-%41.html"),
        ),
        ("attachment; filename=\"50%.html\"", Some("50%.html")),
        (
            r#"attachment; filename="foo-%\41.html""#,
            Some("foo-%41.html"),
        ),
        ("attachment; name=\"foo-%41.html\"", None),
        (
            "attachment; filename=\"foo-%c3%a4-%e2%82%ac.html\"",
            Some("foo-%c3%a4-%e2%82%ac.html"),
        ),
        ("attachment; filename =\"foo.html\"", Some("foo.html")),
        ("attachment; xfilename=foo.html", None),
        (
            "attachment; filename=\"/foo.html\"",
            Some("foo.html"), // The path is dropped.
        ),
        (
            r#"attachment; filename="\\foo.html""#,
            Some("foo.html"), // The same in the other spelling.
        ),
        (
            "attachment; creation-date=\"Wed, 12 Feb 1997 16:29:51 -0500\"",
            None,
        ),
        ("foobar", None),
        ("attachment; example=\"filename=example.txt\"", None),
        (
            "attachment; filename*=iso-8859-1''foo-%E4.html",
            Some("foo-ä.html"),
        ),
        (
            "attachment; filename*=UTF-8''foo-%c3%a4-%e2%82%ac.html",
            Some("foo-ä-€.html"),
        ),
        (
            "attachment; filename*=UTF-8''foo-a%cc%88.html",
            Some("foo-a\u{308}.html"),
        ),
        (
            "attachment; filename*= UTF-8''foo-%c3%a4.html",
            Some("foo-ä.html"),
        ),
        (
            "attachment; filename* =UTF-8''foo-%c3%a4.html",
            Some("foo-ä.html"),
        ),
        (
            "attachment; filename*=UTF-8''A-%2541.html",
            Some("A-%41.html"),
        ),
        (
            "attachment; filename*=UTF-8''%5cfoo.html",
            Some("foo.html"), // The path is dropped.
        ),
        (
            "attachment; filename=\"foo-ae.html\"; filename*=UTF-8''foo-%c3%a4.html",
            Some("foo-ä.html"),
        ),
        (
            "attachment; filename*=UTF-8''foo-%c3%a4.html; filename=\"foo-ae.html\"",
            Some("foo-ä.html"),
        ),
        (
            "attachment; filename*0*=ISO-8859-15''euro-sign%3d%a4; \
             filename*=ISO-8859-1''currency-sign%3d%a4",
            Some("currency-sign=¤"),
        ),
        (
            "attachment; foobar=x; filename=\"foo.html\"",
            Some("foo.html"),
        ),
        // Left as they are.
        (
            "attachment; filename==?ISO-8859-1?Q?foo-=E4.html?=",
            Some("=?ISO-8859-1?Q?foo-=E4.html?="),
        ),
        (
            "attachment; filename=\"=?ISO-8859-1?Q?foo-=E4.html?=\"",
            Some("=?ISO-8859-1?Q?foo-=E4.html?="),
        ),
    ] {
        assert_eq!(of(line).as_deref(), name, "{line}");
    }
}

/// By the same list, which would have the whole line ignored.
#[test]
fn what_is_broken_is_read_as_far_as_there_is_one_way_to() {
    for (line, name) in [
        ("\"inline\"", None),
        ("\"attachment\"", None),
        ("attachment; filename=foo,bar.html", Some("foo,bar.html")),
        ("attachment; filename=foo.html ;", Some("foo.html")),
        ("attachment; ;filename=foo", Some("foo")),
        ("attachment; filename=foo bar.html", Some("foo bar.html")),
        (
            "attachment; filename=\"foo.html\"; filename=\"bar.html\"",
            Some("foo.html"),
        ),
        (
            "attachment; filename=foo[1](2).html",
            Some("foo[1](2).html"),
        ),
        ("filename=foo.html", Some("foo.html")),
        ("x=y; filename=foo.html", Some("foo.html")),
        ("\"foo; filename=bar;baz\"; filename=qux", Some("qux")),
        ("; filename=foo.html", Some("foo.html")),
        (": inline; attachment; filename=foo.html", Some("foo.html")),
        ("inline; attachment; filename=foo.html", Some("foo.html")),
        ("attachment; inline; filename=foo.html", Some("foo.html")),
        ("attachment; filename=\"foo.html\".txt", Some("foo.html")),
        ("attachment; filename=\"bar", Some("bar")),
        ("attachment; filename=\"bar\\", Some("bar")),
        ("attachment; filename=foo\"bar;baz\"qux", Some("foo\"bar")),
        // A list, which the header is not; the comma may as well be the name's.
        (
            "attachment; filename=foo.html, attachment; filename=bar.html",
            Some("foo.html, attachment"),
        ),
        ("attachment; foo=foo filename=bar", None),
        ("attachment filename=bar", None),
        ("filename=foo.html; attachment", Some("foo.html")),
        ("attachment; filename *=UTF-8''foo-%c3%a4.html", None),
        (
            "attachment; filename*=\"UTF-8''foo-%c3%a4.html\"",
            Some("foo-ä.html"),
        ),
        // Of mail.
        ("attachment; filename*0=\"foo.\"; filename*1=\"html\"", None),
        (
            "attachment; filename*0*=UTF-8''foo-%c3%a4; filename*1=\".html\"",
            None,
        ),
    ] {
        assert_eq!(of(line).as_deref(), name, "{line}");
    }
}

#[test]
fn a_bad_extended_value_leaves_the_plain_one() {
    for value in [
        "''foo-%c3%a4-%e2%82%ac.html",
        "\"foo%20bar.html\"",
        "UTF-8'foo-%c3%a4.html",
        "UTF-8''foo%",
        "UTF-8''f%oo.html",
        "UTF-8''foo%4",
        "utf-8''foo-%E4.html",
        "UTF-8''foo-ä.html",
        "iso-8859-1''foo-%c3%a4-%e2%82%ac.html",
        "ISO-8859-15''euro-sign%3d%a4",
        "bogus''foo",
        "UTF-8''",
        "UTF-8''..%2F",
        "UTF-8''%20",
        "",
    ] {
        let line = format!("attachment; filename*={value}");
        assert_eq!(of(&line), None, "{line}");
        let line = format!("{line}; filename=plain");
        assert_eq!(of(&line).as_deref(), Some("plain"), "{line}");
    }
}

#[test]
fn language_and_case_of_an_extended_value_do_not_matter() {
    for (value, name) in [
        ("utf-8'en'a.txt", "a.txt"),
        ("Utf-8'de-CH-1901'%C3%BC", "ü"),
        ("Iso-8859-1'en'%A3%20rates", "£ rates"),
        ("UTF-8''it's (a) b,c.txt", "it's (a) b,c.txt"),
    ] {
        assert_eq!(of(&format!("x; fileNAME*={value}")).as_deref(), Some(name));
    }
}

#[test]
fn bytes_beyond_ascii_are_utf8_or_else_latin1() {
    for (line, name) in [
        (&b"attachment; filename=\"foo-\xe4.html\""[..], "foo-ä.html"),
        (b"attachment; filename=foo-\xe4.html", "foo-ä.html"),
        (b"attachment; filename=foo-\xc3\xa4.html", "foo-ä.html"),
        (b"attachment; filename=\"\xc3\xa4-\xe4\"", "Ã¤-ä"),
        (b"\xff; \xff=\xff; filename=a", "a"),
    ] {
        assert_eq!(of_lines([line]).as_deref(), Some(name));
    }
}

#[test]
fn only_the_last_segment_of_a_path_counts() {
    for (value, name) in [
        ("a/b.txt", Some("b.txt")),
        (r"..\x", Some("x")),
        ("../../x", Some("x")),
        (r"C:\a\b.txt", Some("b.txt")),
        (r#""C:\\a\\b.txt""#, Some("b.txt")),
        // Not escaped: what a quoted string says is `C:ab.txt`.
        (r#""C:\a\b.txt""#, Some("C:ab.txt")),
        ("/", None),
        ("a/", None),
        ("a/..", None),
    ] {
        let line = format!("attachment; filename={value}");
        assert_eq!(of(&line).as_deref(), name, "{line}");
    }
}

#[test]
fn a_name_of_nothing_is_none() {
    for value in ["", " ", "\"\"", "\" \t\"", ".", "\"..\"", "\". .\"", "\""] {
        assert_eq!(of(&format!("attachment; filename={value}")), None);
        let line = format!("attachment; filename={value};filename=b");
        // The quote that is not closed has the rest.
        let after = if value == "\"" { ";filename=b" } else { "b" };
        assert_eq!(of(&line).as_deref(), Some(after), "{line}");
    }
}

#[test]
fn the_first_line_that_tells_a_name_counts() {
    let lines = [
        &b""[..],
        b"attachment",
        b"attachment; filename=\"\"",
        b"attachment; filename=a",
        b"attachment; filename*=UTF-8''b",
    ];
    assert_eq!(of_lines(lines).as_deref(), Some("a"));
    assert_eq!(of_lines([]), None);
}

proptest! {
    #[test]
    fn a_name_that_is_written_by_the_rfc_is_read_back(
        name in "[a-zäé€ ;,=\"%'\u{1f600}]{0,20}[a-z€]",
        other in "[a-z]{0,5}",
        plain_first in any::<bool>(),
    ) {
        let name = name.trim();
        let quoted = name.replace('"', "\\\"");
        prop_assert_eq!(of(&format!("attachment; filename=\"{quoted}\"")).unwrap(), name);
        let encoded: String = name.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let plain = format!("filename=\"{other}\"");
        let extended = format!("filename*=UTF-8''{encoded}");
        let line = match plain_first {
            true => format!("inline; {plain}; {extended}"),
            false => format!("inline;{extended};{plain}"),
        };
        prop_assert_eq!(of(&line).unwrap(), name);
    }

    #[test]
    fn whatever_is_sent_is_one_segment_or_none(
        line in prop_oneof![
            prop::collection::vec(32..=255_u8, 0..60),
            "(x;)?(filename[*]?[ ]?=[\"]?(UTF-8'')?[./\\\\%2ef;\" a]{0,12};?){1,3}"
                .prop_map(String::into_bytes),
        ],
    ) {
        prop_assume!(!line.contains(&127));
        if let Some(name) = of_lines([line.as_slice()]) {
            prop_assert!(!name.contains(['/', '\\']), "{}", name);
            prop_assert!(name.contains(|c: char| c != '.' && !c.is_whitespace()));
            prop_assert_eq!(name.trim(), name.as_str());
        }
    }
}
