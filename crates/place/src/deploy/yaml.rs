//! JSON values as YAML, for people to read and change.

use serde_json::Value;

/// A value as a YAML document.
pub(super) fn document(value: &Value) -> String {
    let mut text = String::from("---\n");
    block(value, 0, &mut text);
    text
}

/// Writes a map or a list in lines with this indent.
fn block(value: &Value, indent: usize, text: &mut String) {
    let space = " ".repeat(indent);
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                text.push_str(&format!("{space}{}:", scalar(&Value::from(key.as_str()))));
                after_key(value, indent, text);
            }
        }
        Value::Array(list) => {
            for value in list {
                let mut item = String::new();
                if is_inline(value) {
                    item = format!("{space}  {}\n", scalar(value));
                } else {
                    block(value, indent + 2, &mut item);
                }
                item.replace_range(indent..indent + 1, "-");
                text.push_str(&item);
            }
        }
        _ => text.push_str(&format!("{space}{}\n", scalar(value))),
    }
}

/// Writes what follows a key and its colon.
fn after_key(value: &Value, indent: usize, text: &mut String) {
    match value {
        Value::String(lines) if lines.contains('\n') => {
            text.push_str(" |\n");
            for line in lines.lines() {
                let line = format!("{}{line}", " ".repeat(indent + 2));
                text.push_str(&format!("{}\n", line.trim_end()));
            }
        }
        value if is_inline(value) => text.push_str(&format!(" {}\n", scalar(value))),
        value => {
            text.push('\n');
            block(value, indent + 2, text);
        }
    }
}

/// Whether a value is written in the line of its key.
fn is_inline(value: &Value) -> bool {
    match value {
        Value::Object(map) => map.is_empty(),
        Value::Array(list) => list.is_empty(),
        _ => true,
    }
}

/// A value in one line. Text that YAML would take for something else is quoted as in JSON.
fn scalar(value: &Value) -> String {
    let Value::String(text) = value else { return value.to_string() };
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
    let is_word = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/');
    let means_more = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    if is_word && text.chars().all(is_plain) && !means_more.contains(&&*text.to_lowercase()) {
        text.clone()
    } else {
        value.to_string()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn maps_lists_and_texts_are_indented_and_quoted_where_needed() {
        let value = json!({
            "args": ["train", "--set", "no"],
            "empty": {},
            "list": [{"a": 1, "b": {"c": "x"}}, [1, 2]],
            "text": "[model]\n\nkind = 1\n",
        });
        let expected = concat!(
            "---\n",
            "args:\n  - train\n  - \"--set\"\n  - \"no\"\n",
            "empty: {}\n",
            "list:\n  - a: 1\n    b:\n      c: x\n  - - 1\n    - 2\n",
            "text: |\n  [model]\n\n  kind = 1\n",
        );
        assert_eq!(document(&value), expected);
    }
}
