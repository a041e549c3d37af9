//! Makes deliberate mistakes in a copy of the library, one at a time, and counts the seeds that the fleet needs to find each.
//!
//! ```text
//! cargo run --release -p admission-simulator --example mistakes
//! cargo run --release -p admission-simulator --example mistakes -- --seeds 5000 "a wake-up is lost"
//! ```
//!
//! All mistakes are in one copy, each behind a question that is true in its own run alone. So the copy is built once, and a run
//! with none of them is the control: it must find nothing. A mistake whose place has changed is an error.

mod table;

use std::{
    env, fs, io,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use table::MISTAKES;

/// What a copy is told which mistake to make by.
const CHOICE: &str = "FLEET_MISTAKE";

const ASKS: &str = "
/// Whether this is the run with this mistake.
pub(crate) fn is_wrong(name: &str) -> bool {
    static CHOSEN: std::sync::OnceLock<Option<String>> = std::sync::OnceLock::new();
    CHOSEN.get_or_init(|| std::env::var(\"FLEET_MISTAKE\").ok()).as_deref() == Some(name)
}
";

fn main() -> ExitCode {
    let mut seeds = "2500".to_owned();
    let mut only = Vec::new();
    let mut arguments = env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--seeds" => seeds = arguments.next().unwrap_or(seeds),
            _ => only.push(argument),
        }
    }
    match run(&seeds, &only) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::from(2)
        }
    }
}

fn run(seeds: &str, only: &[String]) -> Result<bool, String> {
    let program = build()?;
    let seeds = format!("1..{}", seeds.parse::<u64>().map_err(|error| format!("--seeds: {error}"))?.saturating_add(1));
    let control = simulate(&program, &seeds, "")?;
    if !control.contains(": 0 broken promises") {
        return Err(format!("the copy breaks a promise without any mistake:\n{control}"));
    }
    println!("no mistake: {}", control.lines().next().unwrap_or_default());
    println!("| mistake | seeds | broken promise |\n|---|---|---|");
    let (mut found, mut all) = (0, 0);
    for mistake in MISTAKES.iter().filter(|it| only.is_empty() || only.iter().any(|name| name == it.name)) {
        let told = simulate(&program, &seeds, mistake.name)?;
        let after = told.lines().find_map(|line| line.strip_prefix("after ")?.strip_suffix(" seeds"));
        let promise = told.lines().nth(1).and_then(|line| line.split(": ").nth(1));
        all += 1;
        found += u32::from(after.is_some());
        println!(
            "| {} | {} | {} |",
            mistake.name,
            after.unwrap_or("not found"),
            promise.filter(|_| after.is_some()).unwrap_or("-")
        );
    }
    println!("{found} of {all} mistakes were found");
    Ok(found == all)
}

/// Runs the copy, in which this mistake is made.
fn simulate(program: &Path, seeds: &str, mistake: &str) -> Result<String, String> {
    let output = Command::new(program)
        // Some mistakes make a world stand still.
        .args(["--world", "3..8", "--seeds", seeds, "--no-shrink", "--stalls-after", "30"])
        .env(CHOICE, mistake)
        .output()
        .map_err(|error| format!("{}: {error}", program.display()))?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Builds the copy; returns the simulator in it.
fn build() -> Result<PathBuf, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let copy = target.join("fleet-mistakes");
    let told = |error: io::Error| format!("{}: {error}", copy.display());
    for folder in ["src", "crates/config", "crates/engine", "crates/simulator", "crates/store", "crates/testkit"] {
        let to = copy.join(folder);
        // A file that has moved since the last copy would be there twice.
        if to.exists() {
            fs::remove_dir_all(&to).map_err(told)?;
        }
        copy_folder(&root.join(folder), &to).map_err(told)?;
    }
    for file in ["Cargo.lock", "README.md"] {
        fs::copy(root.join(file), copy.join(file)).map_err(told)?;
    }
    fs::write(copy.join("Cargo.toml"), manifest(&fs::read_to_string(root.join("Cargo.toml")).map_err(told)?)?)
        .map_err(told)?;
    make_mistakes(&copy)?;
    let status = Command::new(env!("CARGO"))
        .args(["build", "--release", "--offline", "--package", "admission-simulator", "--example", "simulate"])
        .current_dir(&copy)
        .env("CARGO_TARGET_DIR", &target)
        .status()
        .map_err(told)?;
    if !status.success() {
        return Err("the copy can't be built".to_owned());
    }
    // The next build of the workspace writes its own simulator there.
    let program = copy.join("simulate-with-mistakes");
    fs::copy(target.join("release/examples/simulate"), &program).map_err(told)?;
    Ok(program)
}

/// Returns the manifest of a workspace with nothing but the library and the simulator.
fn manifest(text: &str) -> Result<String, String> {
    let mut kept = String::new();
    let mut is_left_out = false;
    for line in text.lines() {
        if line.starts_with('[') {
            is_left_out = line == "[[test]]";
        }
        // Another version, so that Cargo does not take what it built of the copy for what it would build of the workspace.
        let marked =
            line.strip_suffix('"').filter(|_| line.starts_with("version = ")).map(|it| format!("{it}+mistakes\""));
        let line = match line.split(" = ").next() {
            Some("version") => marked.as_deref().unwrap_or(line),
            Some("members") => {
                "members = [\"crates/config\", \"crates/engine\", \"crates/simulator\", \"crates/store\", \"crates/testkit\"]"
            }
            Some("default-members") => "default-members = [\"crates/simulator\"]",
            Some("exclude") if line.contains("\"crates/fuzz\"") => "",
            _ => line,
        };
        if !is_left_out {
            kept.push_str(line);
            kept.push('\n');
        }
    }
    if kept.contains("members = [\"crates/config\"") { Ok(kept) } else { Err("the manifest has no members".to_owned()) }
}

fn make_mistakes(copy: &Path) -> Result<(), String> {
    for mistake in MISTAKES {
        let path = copy.join(mistake.file);
        let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", mistake.file))?;
        let found = text.matches(mistake.right).count();
        if found != 1 {
            return Err(format!(
                "{} has changed: bring the mistake {:?} up to date, whose place was found {found} times",
                mistake.file, mistake.name
            ));
        }
        let asks = format!("crate::is_wrong({:?})", mistake.name);
        let text = text.replace(mistake.right, &mistake.wrong.replace("WRONG", &asks));
        fs::write(&path, text).map_err(|error| format!("{}: {error}", mistake.file))?;
    }
    for lib in ["src/lib.rs", "crates/engine/src/lib.rs", "crates/store/src/lib.rs"] {
        let path = copy.join(lib);
        let text = fs::read_to_string(&path).map_err(|error| format!("{lib}: {error}"))?;
        fs::write(&path, text + ASKS).map_err(|error| format!("{lib}: {error}"))?;
    }
    Ok(())
}

fn copy_folder(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_folder(&entry.path(), &to)?;
        } else {
            fs::copy(entry.path(), &to)?;
        }
    }
    Ok(())
}
