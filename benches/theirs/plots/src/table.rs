//! Tables of a page in Markdown.

/// The loads of most tables, in capacities.
pub(crate) const LOADS: [&str; 4] = ["0.5", "1", "3", "10"];

/// A table, with the names of its columns.
#[derive(Clone, Debug)]
pub(crate) struct Table<'t> {
    section: &'t str,
    columns: Vec<&'t str>,
    rows: Vec<Vec<&'t str>>,
}

fn cells(line: &str) -> Vec<&str> {
    line.trim().trim_matches('|').split('|').map(str::trim).collect()
}

impl<'t> Table<'t> {
    /// The first table of a section, by its heading.
    pub(crate) fn read(page: &'t str, section: &'t str) -> Result<Self, String> {
        let mut lines = page.lines().skip_while(|line| line.strip_prefix("## ") != Some(section)).skip(1);
        let in_section = lines.by_ref().take_while(|line| !line.starts_with("## "));
        let mut table = in_section.skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
        let head = table.next().ok_or_else(|| format!("there is no table below {section:?}"))?;
        // The line below the head says how columns are aligned.
        let rows = table.skip(1).map(cells).collect();
        Ok(Self { section, columns: cells(head), rows })
    }

    fn column(&self, name: &str) -> Result<usize, String> {
        let place = self.columns.iter().position(|column| *column == name);
        place.ok_or_else(|| format!("the table below {:?} has no column {name:?}", self.section))
    }

    /// The rows in which the first column named here has this text: for each of them the text of the second.
    pub(crate) fn pairs(&self, key: &str, value: &str) -> Result<Vec<(&'t str, f64)>, String> {
        let (key, value) = (self.column(key)?, self.column(value)?);
        let pair = |row: &Vec<&'t str>| {
            let (key, text) = (row.get(key)?, row.get(value)?);
            Some((*key, text.trim_end_matches(['%', ' ']).parse().ok()?))
        };
        let wrong = || format!("the table below {:?} has a row that can't be read", self.section);
        self.rows.iter().map(|row| pair(row).ok_or_else(wrong)).collect()
    }

    /// Percent of the capacity of a variant, under each of the loads.
    pub(crate) fn line(&self, variant: &str) -> Result<[f64; LOADS.len()], String> {
        let (loads, variants) = (self.column("load")?, self.column("variant")?);
        let mut line = [0.0; LOADS.len()];
        for (load, percent) in LOADS.into_iter().zip(&mut line) {
            let is_it = |row: &&Vec<&str>| row.get(loads) == Some(&load) && row.get(variants) == Some(&variant);
            let rows = self.rows.iter().filter(is_it).cloned().collect();
            let found = Self { rows, columns: self.columns.clone(), ..*self }.pairs("variant", "of capacity")?;
            let [(_, found)] = found[..] else {
                return Err(format!("{:?} has {} rows of {variant:?} at load {load}", self.section, found.len()));
            };
            *percent = found;
        }
        Ok(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "## other\n\n| load |\n|---|\n| 7 |\n\n## pool\n\nText.\n\n| load | variant | of capacity |\n|---:|---|---:|\n\
                        | 0.5 | bare | 50 % |\n| 1 | bare | 99 % |\n| 3 | bare | 6 % |\n| 10 | bare | 5 % |\n\n## last\n";

    #[test]
    fn a_line_has_a_point_for_each_load() {
        let line = Table::read(PAGE, "pool").and_then(|table| table.line("bare"));
        assert_eq!(line, Ok([50.0, 99.0, 6.0, 5.0]));
    }

    #[test]
    fn what_is_not_found_is_named() {
        for (from, to, missing) in [
            ("of capacity", "capacity", "no column \"of capacity\""),
            ("| variant", "| kind", "no column \"variant\""),
            ("| load | variant", "| loads | variant", "no column \"load\""),
            ("| 3 | bare", "| 4 | bare", "0 rows of \"bare\" at load 3"),
            ("6 %", "–", "can't be read"),
            ("## pool", "## pools", "no table below \"pool\""),
        ] {
            let page = PAGE.replace(from, to);
            let error = Table::read(&page, "pool").and_then(|table| table.line("bare")).expect_err(to);
            assert!(error.contains(missing), "{error}");
        }
    }
}
