//! The path of the limit under each law, against paths that are kept beside this file.
//!
//! Property tests say that a limit stays in its bounds. They can't say how fast it moves, or by what it judges: that is in the
//! thresholds and constants of a law, and each of them shows somewhere on these paths. A path that changed is a law that
//! changed. Where it should, write the files anew, and read the difference:
//!
//! ```text
//! UPDATE_SNAPSHOTS=1 cargo test --workspace --all-features --lib kept
//! ```
//!
//! Service times are drawn in whole numbers, and what is written is rounded, so that libraries of mathematics which differ in
//! the last bit give the same files.

mod server;
mod steps;
mod worlds;

use std::{fmt::Write as _, time::Duration};

pub(super) use self::server::Random;

use super::{Aimd, Gradient, Gradient2, LimitAlgorithm, NetflixWindow, QueueSize, TwoPoint, Vegas, Windowed};
use crate::kept_tests::assert_kept;

fn keep(file: &str, text: &str) {
    assert_kept(&format!("src/limit/path_tests/{file}"), text);
}

/// Runs a law through all worlds, and compares its path with the kept one.
fn assert_path<L: LimitAlgorithm>(file: &str, law: impl Fn() -> L) {
    let mut text = format!("{}\n\n", server::COLUMNS);
    // This law acts on more than a number or two, and is looked at twice as often.
    let slower = if file.starts_with("two_point") { 1 } else { 2 };
    for world in worlds::ALL {
        writeln!(text, "# {}", world.name).unwrap();
        text += &server::path(law(), world, slower);
        text.push('\n');
    }
    keep(file, &text);
}

fn aimd() -> Aimd {
    Aimd::new(Duration::from_millis(40)).min(2).max(150)
}

#[test]
fn two_point_takes_the_path_that_is_kept() {
    assert_path("two_point.txt", || TwoPoint::new().max(300));
}

#[test]
fn two_point_with_little_room_takes_the_path_that_is_kept() {
    assert_path("two_point_narrow.txt", || TwoPoint::new().initial(4).min(3).max(24));
}

#[test]
fn two_point_with_an_adopted_limit_takes_the_path_that_is_kept() {
    assert_path("two_point_adopted.txt", || {
        let mut law = TwoPoint::new().initial(10).max(400);
        law.adopt(90);
        law
    });
}

#[test]
fn vegas_takes_the_path_that_is_kept() {
    assert_path("vegas.txt", || Vegas::new().max(200));
    assert_path("vegas_windowed.txt", || Windowed::new(Vegas::new().initial(120).smoothing(0.5)));
}

#[test]
fn gradient_takes_the_path_that_is_kept() {
    assert_path("gradient.txt", || Gradient::new().max(200).probe(Duration::from_secs(12), 50));
}

#[test]
fn gradient2_takes_the_path_that_is_kept() {
    assert_path("gradient2.txt", || Gradient2::new().min(5));
    let windowed = || Windowed::new(Gradient2::new().min(4).queue(QueueSize::SquareRoot).ignore_overloads(false));
    assert_path("gradient2_windowed.txt", || windowed().min_time(Duration::from_millis(300)));
}

#[test]
fn aimd_takes_the_path_that_is_kept() {
    assert_path("aimd.txt", || aimd().stabilizing(true));
    assert_path("aimd_windowed.txt", || Windowed::new(aimd()));
    let percentile = || Windowed::new(aimd().initial(60)).percentile(90.0).min_samples(40);
    assert_path("aimd_percentile.txt", percentile);
}

#[test]
fn netflix_windows_take_the_path_that_is_kept() {
    assert_path("netflix.txt", || NetflixWindow::new(aimd()));
    let percentile = || NetflixWindow::new(aimd()).percentile(95.0, 60).samples(25);
    assert_path("netflix_percentile.txt", || percentile().time(Duration::from_millis(20), Duration::from_millis(400)));
}
