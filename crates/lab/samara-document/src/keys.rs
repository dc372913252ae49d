//! Dotted keys of documents, as in command-line arguments and axes of sweeps, and their values.

/// An axis of a sweep: its key and its values.
pub type GridAxis = (String, Vec<toml::Value>);

/// Formats a value as on the command line.
pub fn plain(value: &toml::Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

pub fn is_within(key: &str, table: &str) -> bool {
    key.strip_prefix(table).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

pub fn get<'a>(table: &'a toml::Table, key: &str) -> Option<&'a toml::Value> {
    let mut parts = key.split('.');
    let first = table.get(parts.next()?)?;
    parts.try_fold(first, |value, part| value.get(part))
}

pub fn get_mut<'a>(table: &'a mut toml::Table, key: &str) -> Option<&'a mut toml::Table> {
    key.split('.').try_fold(table, |table, part| table.get_mut(part)?.as_table_mut())
}

/// Removes a dotted key from a table, if it exists.
pub fn remove(table: &mut toml::Table, key: &str) {
    let table = key.rsplit_once('.').and_then(|(parents, last)| Some((get_mut(table, parents)?, last)));
    table.map(|(table, last)| table.remove(last));
}

/// Parses a value of the command line: TOML if possible, a string otherwise.
pub fn parse_value(text: &str) -> toml::Value {
    let document = format!("value = {text}").parse::<toml::Table>();
    let value = document.ok().and_then(|mut table| table.remove("value"));
    value.unwrap_or_else(|| toml::Value::String(text.to_owned()))
}

/// Splits a dotted key into its parts, which may be quoted as in TOML. The keys of a run are one part,
/// quoted or not (`run.0.set.protocol.withdraw`), since `set` has dotted keys.
pub fn parts(key: &str) -> Result<Vec<String>, String> {
    // Metrics contain dots, and a colon after the name of a run, so the rest is one key, in quotes
    // or not.
    if let Some(metric) = key.strip_prefix("expect.").filter(|metric| !metric.is_empty()) {
        return Ok(vec!["expect".to_owned(), metric.trim_matches('"').to_owned()]);
    }
    let table: toml::Table = toml::from_str(&format!("{key} = true"))
        .map_err(|_| format!("{key} is not a key; expected section.key, for example network.nodes"))?;
    let mut parts = Vec::new();
    let mut inner = Some(&table);
    while let Some((part, value)) = inner.and_then(|table| table.iter().next()) {
        parts.push(part.clone());
        inner = value.as_table();
    }
    if is_of_run(&parts) {
        let own = parts.split_off(OF_RUN).join(".");
        parts.push(own);
    }
    Ok(parts)
}

/// The number of parts before a key of a run, such as `run.0.set`.
const OF_RUN: usize = 3;

fn is_of_run(parts: &[String]) -> bool {
    let is_index = |part: &String| part.parse::<usize>().is_ok();
    parts.len() > OF_RUN && parts[0] == "run" && is_index(&parts[1]) && parts[2] == "set"
}

/// Removes the values of a dotted key from the keys of a run: those at the key and below it, each dotted
/// or in nested tables. Returns false if there were none.
fn remove_of_run(set: &mut toml::Table, key: &str) -> bool {
    let before = set.len();
    set.retain(|own, _| !is_within(own, key));
    let mut found = set.len() < before;
    for (own, value) in set.iter_mut() {
        let below = key.strip_prefix(own.as_str()).and_then(|below| below.strip_prefix('.'));
        let parent = below.and_then(|below| Some((value.as_table_mut()?, below)));
        found |= parent.is_some_and(|(table, below)| remove_of_run(table, below));
    }
    found
}

/// Sets a dotted key. Numbers are indices of arrays. A section needs a table or an array.
pub fn set_key(table: &mut toml::Table, key: &str, value: toml::Value) -> Result<(), String> {
    let parts = parts(key)?;
    if let [section] = parts.as_slice()
        && (value.is_table() || value.is_array())
    {
        table.insert(section.clone(), value);
        return Ok(());
    }
    let [first, rest @ .., last] = parts.as_slice() else {
        return Err("expected section.key, for example network.nodes".to_owned());
    };
    let is_index = |part: &String| part.parse::<usize>().is_ok();
    if !table.contains_key(first) && rest.first().is_some_and(is_index) {
        return Err(format!("there is no [[{first}]] to change; set the whole list: {first}='[{{ ... }}]'"));
    }
    let mut current = table.entry(first).or_insert_with(|| toml::Value::Table(toml::Table::new()));
    for part in rest {
        current = step(current, part)?;
    }
    if is_of_run(&parts)
        && let Some(set) = current.as_table_mut()
    {
        remove_of_run(set, last);
    }
    *step(current, last)? = value;
    Ok(())
}

/// Removes a dotted key, or an element of an array. Returns false if the table does not have it.
pub fn unset_key(table: &mut toml::Table, key: &str) -> Result<bool, String> {
    let parts = parts(key)?;
    let Some((last, parents)) = parts.split_last() else { return Ok(false) };
    let Some((first, rest)) = parents.split_first() else { return Ok(table.remove(last).is_some()) };
    let mut parent = table.get_mut(first);
    for part in rest {
        parent = parent.and_then(|value| match value {
            toml::Value::Array(array) => array.get_mut(part.parse::<usize>().ok()?),
            value => value.get_mut(part),
        });
    }
    Ok(match parent {
        Some(toml::Value::Table(set)) if is_of_run(&parts) => remove_of_run(set, last),
        Some(toml::Value::Table(table)) => table.remove(last).is_some(),
        Some(toml::Value::Array(array)) => {
            let place = last.parse().ok().filter(|place| *place < array.len());
            place.map(|place: usize| array.remove(place)).is_some()
        }
        _ => false,
    })
}

fn step<'a>(value: &'a mut toml::Value, part: &str) -> Result<&'a mut toml::Value, String> {
    match value {
        toml::Value::Table(table) => {
            Ok(table.entry(part).or_insert_with(|| toml::Value::Table(toml::Table::new())))
        }
        toml::Value::Array(array) => {
            let len = array.len();
            part.parse::<usize>()
                .ok()
                .and_then(|index| array.get_mut(index))
                .ok_or_else(|| format!("\"{part}\" is not an index of an array of {len}"))
        }
        _ => Err(format!("\"{part}\" is below a value that has no keys")),
    }
}

/// Parses an axis of the command line: a key and values separated by commas, for example
/// `network.nodes=100,200`. Commas within quotes and brackets do not separate values.
pub fn parse_axis(text: &str) -> Result<GridAxis, String> {
    let wrong =
        || format!("\"{text}\" is not KEY=VALUE,VALUE,...; expected for example network.nodes=100,200");
    let (key, list) = text.split_once('=').ok_or_else(wrong)?;
    parts(key.trim()).map_err(|_| wrong())?;
    let values: Vec<&str> = split_values(list).into_iter().map(str::trim).collect();
    if values.iter().any(|value| value.is_empty()) {
        return Err(wrong());
    }
    let values: Vec<toml::Value> = values.into_iter().map(parse_value).collect();
    match values.iter().enumerate().find(|(i, value)| values[..*i].contains(value)) {
        Some((_, twice)) => Err(format!("{}: duplicate value {}", key.trim(), plain(twice))),
        None => Ok((key.trim().to_owned(), values)),
    }
}

/// Splits a list at commas that are not within quotes or brackets.
fn split_values(list: &str) -> Vec<&str> {
    let (mut depth, mut quote, mut from, mut parts) = (0_u32, None, 0, Vec::new());
    for (at, c) in list.char_indices() {
        match (quote, c) {
            (Some(open), _) => quote = Some(open).filter(|open| *open != c),
            (None, '"' | '\'') => quote = Some(c),
            (None, '[' | '{') => depth += 1,
            (None, ']' | '}') => depth = depth.saturating_sub(1),
            (None, ',') if depth == 0 => {
                parts.push(&list[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&list[from..]);
    parts
}

/// Collects the values of a document by their dotted keys.
pub fn flatten(prefix: &str, value: &toml::Value, rows: &mut Vec<(String, String)>) {
    let below = |key: &str| if prefix.is_empty() { key.to_owned() } else { format!("{prefix}.{key}") };
    match value {
        toml::Value::Table(table) => table.iter().for_each(|(key, value)| flatten(&below(key), value, rows)),
        toml::Value::Array(array) if array.iter().any(toml::Value::is_table) => {
            for (i, value) in array.iter().enumerate() {
                flatten(&below(&i.to_string()), value, rows);
            }
        }
        other => rows.push((prefix.to_owned(), plain(other))),
    }
}
