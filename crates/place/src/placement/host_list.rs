//! The short forms in which Slurm writes the hosts of a step and the number of tasks on each.

/// The most hosts or tasks that a list may stand for.
const MAX_LISTED: usize = 65_536;

/// The hosts of a list such as `login,node[001-003,7]-ib`, in order.
pub(super) fn expand_hosts(list: &str) -> Result<Vec<String>, String> {
    let mut hosts = Vec::new();
    for pattern in split_outside_brackets(list)? {
        let mut names = vec![String::new()];
        let mut rest = pattern;
        while let Some((before, bracket)) = rest.split_once('[') {
            let (ranges, after) = bracket.split_once(']').ok_or("a bracket is not closed")?;
            let numbers = expand_ranges(ranges)?;
            if names.len() * numbers.len() > MAX_LISTED {
                return Err(format!("it stands for more than {MAX_LISTED} hosts"));
            }
            let with = |name: &String| {
                let numbered = numbers.iter().map(|number| format!("{name}{before}{number}"));
                numbered.collect::<Vec<_>>()
            };
            names = names.iter().flat_map(with).collect();
            rest = after;
        }
        hosts.extend(names.into_iter().map(|name| name + rest));
    }
    if hosts.len() > MAX_LISTED || hosts.iter().any(String::is_empty) {
        return Err("it names an empty host, or too many".into());
    }
    Ok(hosts)
}

/// Splits a list at its commas, except at those between brackets.
fn split_outside_brackets(list: &str) -> Result<Vec<&str>, String> {
    let (mut parts, mut start, mut is_inside) = (Vec::new(), 0, false);
    for (at, letter) in list.char_indices() {
        match letter {
            '[' if !is_inside => is_inside = true,
            ']' if is_inside => is_inside = false,
            '[' | ']' => return Err("its brackets do not match".into()),
            ',' if !is_inside => {
                parts.push(&list[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&list[start..]);
    Ok(parts)
}

/// The numbers of ranges such as `001-003,7`. A range keeps the width of its first number.
fn expand_ranges(ranges: &str) -> Result<Vec<String>, String> {
    let mut numbers = Vec::new();
    for range in ranges.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let number = |text: &str| text.parse::<usize>().map_err(|_| format!("{text:?} in it"));
        let (from, to) = (number(first)?, number(last)?);
        if to < from || to - from >= MAX_LISTED {
            return Err(format!("the range {range} is empty or too long"));
        }
        let width = first.len();
        numbers.extend((from..=to).map(|number| format!("{number:0width$}")));
    }
    Ok(numbers)
}

/// The counts of a list such as `2(x3),1`: 2, 2, 2, 1.
pub(super) fn expand_counts(list: &str) -> Result<Vec<usize>, String> {
    let mut counts = Vec::new();
    for part in list.split(',') {
        let number = |text: &str| text.parse().map_err(|_| format!("{part:?} in it"));
        let (count, times) = match part.split_once("(x") {
            None => (number(part)?, 1),
            Some((count, times)) => {
                (number(count)?, number(times.strip_suffix(')').unwrap_or_default())?)
            }
        };
        if times > MAX_LISTED || counts.len() + times > MAX_LISTED {
            return Err(format!("it stands for more than {MAX_LISTED} hosts"));
        }
        counts.extend(std::iter::repeat_n(count, times));
    }
    Ok(counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_keep_the_width_of_their_numbers() {
        assert_eq!(
            expand_hosts("node[001-003,7]").unwrap(),
            ["node001", "node002", "node003", "node7"]
        );
        assert_eq!(expand_hosts("a,b[9-10]-ib,c").unwrap(), ["a", "b9-ib", "b10-ib", "c"]);
        assert_eq!(expand_hosts("r[1-2]n[1-2]").unwrap(), ["r1n1", "r1n2", "r2n1", "r2n2"]);
        assert_eq!(expand_hosts("localhost").unwrap(), ["localhost"]);
    }

    #[test]
    fn counts_may_be_repeated() {
        assert_eq!(expand_counts("2(x3),1").unwrap(), [2, 2, 2, 1]);
        assert_eq!(expand_counts("1").unwrap(), [1]);
    }

    #[test]
    fn a_damaged_or_enormous_list_is_refused() {
        for list in ["", "a,,b", "n[1-", "n]1[", "n[[1]]", "n[x]", "n[3-1]", "n[1-9999999999]"] {
            assert!(expand_hosts(list).is_err(), "{list}");
        }
        assert!(expand_hosts("n[0-999][0-999]").is_err());
        for list in ["", "2(x", "2(xa)", "x", "1(x99999999999)", "1(x70000)"] {
            assert!(expand_counts(list).is_err(), "{list}");
        }
    }
}
