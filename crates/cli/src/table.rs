//! Columns.

use crate::text::{Look, Paint, cut, safe};

/// A wider cell pushes its own row to the right, and no other one: the other rows would be as long.
const WIDEST: usize = 160;

/// What stands in one column of one row.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cell {
    text: String,
    look: Look,
}

impl<T: AsRef<str>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self { text: safe(text.as_ref()).into_owned(), look: Look::Plain }
    }
}

impl Cell {
    /// A name that a stranger may have chosen: cut to a length that leaves room for other columns.
    pub(crate) fn name(name: &str) -> Self {
        Self { text: cut(&safe(name)), look: Look::Plain }
    }

    pub(crate) fn number(number: usize) -> Self {
        Self::from(number.to_string())
    }

    pub(crate) fn with(mut self, look: Look) -> Self {
        self.look = look;
        self
    }
}

/// Rows under a head. A head that begins with `>` is that of a column of numbers, which stand to the right. A column without a head
/// is left out.
#[derive(Debug)]
pub(crate) struct Table<const N: usize> {
    heads: [&'static str; N],
    rows: Vec<[Cell; N]>,
}

impl<const N: usize> Table<N> {
    pub(crate) const fn new(heads: [&'static str; N]) -> Self {
        Self { heads, rows: Vec::new() }
    }

    pub(crate) fn row(&mut self, row: [Cell; N]) {
        self.rows.push(row);
    }

    pub(crate) fn lines(&self, paint: Paint) -> Vec<String> {
        self.lines_below(paint, &mut None)
    }

    /// The same below others with these widths, and without the heads where there are some: columns only grow.
    pub(crate) fn lines_below(&self, paint: Paint, above: &mut Option<[usize; N]>) -> Vec<String> {
        let heads = self.heads.map(|head| Cell::from(head.trim_start_matches('>')).with(Look::Dim));
        let all = || std::iter::once(&heads).chain(&self.rows);
        let widths: [usize; N] = std::array::from_fn(|column| {
            let least = above.map_or(0, |widths| widths[column]);
            all().map(|row| row[column].text.chars().count().min(WIDEST)).fold(least, usize::max)
        });
        let skipped = usize::from(above.replace(widths).is_some());
        let line = |row: &[Cell; N]| {
            let cells =
                row.iter().zip(self.heads).zip(widths).enumerate().filter(|(_, ((_, head), _))| !head.is_empty());
            let cells = cells.map(|(column, ((cell, head), width))| {
                let space = " ".repeat(width.saturating_sub(cell.text.chars().count()));
                let painted = paint.paint(cell.look, &cell.text);
                match () {
                    () if head.starts_with('>') => format!("{space}{painted}"),
                    () if column + 1 == N => painted,
                    () => format!("{painted}{space}"),
                }
            });
            cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
        };
        all().skip(skipped).map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_cell_makes_no_other_row_longer() {
        let mut table = Table::new(["A", "B"]);
        for text in ["a", &"ä".repeat(100_000), "c"] {
            table.row([Cell::from(text), Cell::from("b")]);
        }
        let lengths =
            table.lines(Paint::for_stdout()).iter().skip(1).map(|line| line.chars().count()).collect::<Vec<_>>();
        assert_eq!(lengths, [WIDEST + 3, 100_003, WIDEST + 3]);
    }
}
