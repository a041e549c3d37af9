//! Each target over its corpus, and over changes of it, on any toolchain.

use std::{fs, path::Path};

use tower_admission_fuzz::TARGETS;

/// Changes of each file of a corpus, by a generator without a seed of its own: the same in each run.
const CHANGES: u32 = 300;

fn files(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    let mut paths: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.into_iter().map(|path| fs::read(path).unwrap()).collect()
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, most: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut it = self.0;
        it = (it ^ (it >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        it = (it ^ (it >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((it ^ (it >> 31)) % most.max(1) as u64).unwrap()
    }
}

fn changed(data: &[u8], random: &mut Random) -> Vec<u8> {
    let mut data = data.to_vec();
    for _ in 0..=random.below(4) {
        let at = random.below(data.len());
        match random.below(5) {
            0 => data.insert(at, u8::try_from(random.below(256)).unwrap()),
            1 if !data.is_empty() => drop(data.remove(at)),
            2 if !data.is_empty() => data[at] = b"0:-\n\0\xff9{\"x"[random.below(10)],
            3 => data.truncate(at),
            _ => {
                let again = data[at..].to_vec();
                data.splice(at..at, again.into_iter().take(40));
            }
        }
    }
    data
}

#[test]
fn each_target_survives_its_corpus_and_changes_of_it() {
    for (target, body) in TARGETS {
        let (files, mut random, mut executions) = (files(target), Random(7), 0_u32);
        assert!(!files.is_empty(), "{target} has a corpus");
        for file in files {
            body(&file);
            for _ in 0..CHANGES {
                body(&changed(&file, &mut random));
            }
            executions += CHANGES + 1;
        }
        println!("fuzz corpus {target}: {executions} executions");
    }
}

/// A list that is written twice is right in both places.
#[test]
fn each_target_is_run_at_night() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let nightly = fs::read_to_string(root.join("../../.github/workflows/nightly.yml")).unwrap();
    let listed = nightly.lines().find(|line| line.trim_start().starts_with("target: [")).unwrap();
    for (target, _) in TARGETS {
        assert!(listed.contains(target), "{target} is not among {listed}");
        assert!(root.join("fuzz_targets").join(target).with_extension("rs").exists());
    }
}
