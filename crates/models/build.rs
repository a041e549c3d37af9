//! Copies the quiet path as it ships, with loom's atomics; and once more for each deliberate mistake.

use std::{env, fmt::Write, fs, path::Path};

#[path = "mistakes.rs"]
mod mistakes;

use mistakes::{MISTAKES, Mistake};

const FILES: [&str; 11] = [
    "drain.rs",
    "labelled.rs",
    "lane.rs",
    "lending.rs",
    "lent_slot.rs",
    "loan.rs",
    "mod.rs",
    "standing_refusal.rs",
    "ring.rs",
    "lanes_per_partition.rs",
    "lane_state.rs",
];
const ATOMICS: &str = "pub(super) use loom::sync::atomic::{AtomicU64, Ordering};\n";

/// Sizes that no model of loom fills, and their sizes in the copies. Each execution makes all atomics anew: at the shipped sizes, more than
/// half of its time.
const SIZES: [(&str, &str, &str); 2] = [
    ("ring.rs", "const RING: u32 = 256;", "const RING: u32 = 32;"),
    ("mod.rs", "const BATCH: u32 = 64;", "const BATCH: u32 = 8;"),
];

/// All models.
const MODELS: &[&str] = &["handle", "standing_refusals", "rings", "two_lanes", "labels", "turns", "lane_states"];

/// Returns the module with these models: a part of the quiet path, so that they see what is private there.
fn modules(folder: &Path, models: &[&str]) -> String {
    let path = |name: &str| folder.join(name).with_extension("rs");
    let mut text = format!("\npub mod models {{\n#[path = {:?}]\nmod explore;\n", path("explore"));
    for name in models {
        writeln!(text, "#[path = {:?}]\npub mod {name};", path(name)).expect("a string grows");
    }
    text + "use explore::{Inside, explore};\n}\n"
}

/// Writes a copy, and returns the line that makes it a module.
fn copy(shipped: &Path, models: &Path, to: &Path, name: &str, mistake: Option<&Mistake>) -> String {
    let folder = to.join(name);
    fs::create_dir_all(&folder).expect("a folder is made");
    for file in FILES {
        let mut text = fs::read_to_string(shipped.join(file)).expect("the file is there");
        for (_, shipped, here) in SIZES.iter().filter(|(of, ..)| *of == file) {
            assert_eq!(text.matches(shipped).count(), 1, "{file} has changed: bring SIZES up to date");
            text = text.replace(shipped, here);
        }
        if let Some(mistake) = mistake.filter(|mistake| mistake.file == file) {
            for (right, wrong) in mistake.edits {
                let found = text.matches(right).count();
                assert_eq!(found, 1, "{file} has changed: bring the mistake {name} in mistakes.rs up to date");
                text = text.replace(right, wrong);
            }
        }
        if file == "mod.rs" {
            text += &modules(models, mistake.map_or(MODELS, |mistake| mistake.models));
        }
        fs::write(folder.join(file), text).expect("the file is written");
    }
    fs::write(folder.join("atomics.rs"), ATOMICS).expect("the file is written");
    format!(
        "#[allow(unfulfilled_lint_expectations, unreachable_pub, unused_imports)]\n#[path = {:?}]\npub mod {name};\n",
        folder.join("mod.rs")
    )
}

fn main() {
    let here = env::var("CARGO_MANIFEST_DIR").expect("Cargo says where");
    let to = env::var("OUT_DIR").expect("Cargo says where");
    let (here, to) = (Path::new(&here), Path::new(&to));
    let shipped = here.join("../../src/runtime/core/quiet");
    let models = here.join("src/models");
    let mut variants = copy(&shipped, &models, to, "shipped", None);
    for mistake in MISTAKES {
        variants += &copy(&shipped, &models, to, mistake.name, Some(mistake));
    }
    fs::write(to.join("variants.rs"), variants).expect("the file is written");
    println!("cargo::rustc-check-cfg=cfg(kani)");
    println!("cargo::rerun-if-changed={}", shipped.display());
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=mistakes.rs");
}
