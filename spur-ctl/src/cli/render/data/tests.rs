use super::asked::Style;
use super::*;

fn asked(style: Style) -> Asked {
    Asked {
        style,
        parser: Parser::V42,
        complex: false,
    }
}

fn sample(style: Style) -> String {
    let mut doc = Document::begin(asked(style)).kept();
    doc.list("jobs", ["a/b", ""], |doc, name| {
        doc.item(|doc| {
            doc.text("name", name);
            doc.texts("flags", name.split('/').filter(|part| !part.is_empty()));
            doc.empty_map("power");
            doc.null("res");
        });
    });
    doc.number("limit", Number::Infinite);
    doc.number("billing", Number::Fraction(1.0));
    doc.into_text()
}

#[test]
fn json_looks_as_slurms() {
    let wanted = r#"{
  "jobs": [
    {
      "name": "a\/b",
      "flags": [
        "a",
        "b"
      ],
      "power": {},
      "res": null
    },
    {
      "name": "",
      "flags": [],
      "power": {},
      "res": null
    }
  ],
  "limit": {
    "set": false,
    "infinite": true,
    "number": 0
  },
  "billing": {
    "set": true,
    "infinite": false,
    "number": 1.0
  }
}
"#;
    assert_eq!(sample(Style::Json), wanted);
}

#[test]
fn yaml_looks_as_slurms() {
    let wanted = "%YAML 1.1
--- !!map
!!str jobs: !!seq
- !!map
  !!str name: !!str a/b
  !!str flags: !!seq
  - !!str a
  - !!str b
  !!str power: !!map {}
  !!str res: !!null null
- !!map
  !!str name: !!str
  !!str flags: !!seq []
  !!str power: !!map {}
  !!str res: !!null null
!!str limit: !!map
  !!str set: !!bool false
  !!str infinite: !!bool true
  !!str number: !!int 0
!!str billing: !!map
  !!str set: !!bool true
  !!str infinite: !!bool false
  !!str number: !!float 1.000000
...

";
    assert_eq!(sample(Style::Yaml), wanted);
}

fn yaml_of(text: &str) -> String {
    let mut out = String::new();
    yaml::text(&mut out, text, 20, 4);
    out
}

#[test]
fn yaml_texts_are_quoted_where_they_must() {
    for (text, wanted) in [
        ("cpu=1,mem=1G", "!!str cpu=1,mem=1G"),
        ("gpu:h200:2(IDX:0-1)", "!!str gpu:h200:2(IDX:0-1)"),
        ("Linux #1 SMP", "!!str 'Linux #1 SMP'"),
        ("a : b", "!!str 'a : b'"),
        ("it's", "!!str it's"),
        ("'it's", "!!str '''it''s'"),
        (" a", "!!str ' a'"),
        ("- a", "!!str '- a'"),
        ("a\nb", "!!str 'a\n\n    b'"),
        ("a\tb", "!!str \"a\\tb\""),
        ("n\u{e4}m\u{20ac}", "!!str \"n\\xE4m\\u20AC\""),
    ] {
        assert_eq!(yaml_of(text), wanted);
    }
    let bytes = spur_core::slurm::raw::text(b"a\xff");
    assert_eq!(yaml_of(&bytes), "!!binary Yf8=");
}

#[test]
fn long_yaml_texts_are_folded() {
    let text = "word ".repeat(20) + "end";
    let folded = yaml_of(&text);
    let lines: Vec<&str> = folded.lines().collect();
    assert_eq!(lines.len(), 2);
    assert!(lines[0].len() > 55 && lines[1].starts_with("    word"));
}

#[test]
fn json_texts_escape_controls_only() {
    let mut out = String::new();
    json::text(&mut out, "a\"\\/\n\u{1}\u{e4}");
    assert_eq!(out, "\"a\\\"\\\\\\/\\n\\u0001\u{e4}\"");
}

#[test]
fn json_has_a_replacement_for_what_is_no_text() {
    let mut out = String::new();
    json::text(&mut out, &spur_core::slurm::raw::text(b"a\xff\xfe\"b"));
    assert_eq!(out, "\"a\u{fffd}\u{fffd}\\\"b\"");
}
