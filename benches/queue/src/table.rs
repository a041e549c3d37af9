//! Figures of all rounds, and their medians as a table.

use queue::LENGTHS;

/// What was measured, and how much it is.
pub(crate) type Figures = Vec<(&'static str, f64)>;

/// One length of the line, and the figures of all rounds.
type Row = (usize, Vec<Figures>);

/// For each contestant a row for each length.
#[derive(Debug, Default)]
pub(crate) struct Table(Vec<(&'static str, Vec<Row>)>);

impl Table {
    pub(crate) fn add(&mut self, name: &'static str, length: usize, figures: Figures) {
        let place = self.0.iter().position(|(known, _)| *known == name).unwrap_or_else(|| {
            self.0.push((name, LENGTHS.map(|length| (length, Vec::new())).into()));
            self.0.len() - 1
        });
        let rows = &mut self.0[place].1;
        let (_, rounds) = rows.iter_mut().find(|(known, _)| *known == length).expect("one of the lengths");
        rounds.push(figures);
    }

    pub(crate) fn print(&self) {
        let Some(names) = self.0.first().and_then(|(_, rows)| rows[0].1.first()) else { return };
        let names: Vec<_> = names.iter().map(|(name, _)| *name).collect();
        println!("| | waiting | {} |", names.join(" | "));
        println!("|---|---:|{}", "---:|".repeat(names.len()));
        for (name, rows) in &self.0 {
            let of = |row: usize, column: usize, round: usize| rows[row].1[round][column].1;
            for (row, (length, rounds)) in rows.iter().enumerate() {
                let medians = (0..names.len()).map(|column| median((0..rounds.len()).map(|it| of(row, column, it))));
                let cells: Vec<_> = medians.map(|median| format!("{median:.0}")).collect();
                println!("| {name} | {length} | {} |", cells.join(" | "));
            }
            // Within a round both ends meet the same machine, whatever else it has to do.
            let growth = (0..names.len()).map(|column| {
                let rounds = 0..rows[0].1.len();
                median(rounds.map(|it| of(LENGTHS.len() - 1, column, it) / of(0, column, it)))
            });
            let cells: Vec<_> = growth.map(|growth| format!("{growth:.2}x")).collect();
            println!("| {name} | **growth** | {} |", cells.join(" | "));
        }
    }
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}
