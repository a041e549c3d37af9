//! The command line.

mod values;

use std::{path::PathBuf, time::Duration};

use clap::{Args, Parser, Subcommand};

use self::values::{KINDS, SORTS, decisions, interval, last_hour, measures, positive, reasons, statuses, time, times};

const EXIT_CODES: &str = "\
Exit codes:
  0  success
  1  a problem was found: a configuration has problems, an expectation of a scenario does not hold, a label is not
     known, a server keeps no journal, or, with --exit-code, a server or a label is not well, or not all of a burst are served
  2  the command line is wrong
  3  the server can't be reached, or has no introspection

Colours are used on terminals only, and never if NO_COLOR is set.";

/// Shows what a server under admission control decides and why, and which settings fit.
#[derive(Debug, Parser)]
#[command(name = "admission", version, after_help = EXIT_CODES, disable_help_subcommand = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Shows the state of the server in a line, why its limit is what it is, and what to do
    Status(StatusArgs),
    /// Lists partitions: their shares, what they use, and what was refused of them in the last seconds
    Partitions(PartitionsArgs),
    /// Lists labels: the status of each, what it uses, and why its next request waits
    List(ListArgs),
    /// Shows the details of one label, class by class, or of one partition
    Describe(DescribeArgs),
    /// Shows the server live; q quits. Without a terminal, prints a line per interval
    Watch(WatchArgs),
    /// Shows the latest decisions with their reasons, and changes
    Journal(JournalArgs),
    /// Shows the last hour, row by row, with the changes in between
    History(HistoryArgs),
    /// Fetches the capture of the last minutes of the server, starts it, or stops it
    Capture(CaptureArgs),
    /// Replays an incident under other policies, and says which of them would have helped
    WhatIf(WhatIfArgs),
    /// Calculates which limit and queue a burst needs, or predicts what happens to the burst
    Plan(PlanArgs),
    /// Validates a configuration, and shows which settings apply to a label
    Check(CheckArgs),
    /// Runs overload scenarios in virtual time; `admission simulate -h` lists its options
    #[command(disable_help_flag = true)]
    Simulate(SimulateArgs),
    /// Prints a script that completes this command in a shell
    Completions {
        /// Which shell
        shell: clap_complete::Shell,
    },
}

/// The server.
#[derive(Args, Debug)]
pub(crate) struct ServerArgs {
    /// URL of the introspection of the server
    #[arg(long, env = "ADMISSION_URL", hide_env_values = true, default_value = "http://127.0.0.1:9901")]
    pub(crate) url: String,
    /// Timeout of each answer
    #[arg(long, default_value = "5s", value_name = "TIME", value_parser = time)]
    pub(crate) timeout: Duration,
    /// Token that the server asks for
    #[arg(long, env = "ADMISSION_TOKEN", hide_env_values = true, default_value = "", hide_default_value = true)]
    pub(crate) token: String,
}

#[derive(Args, Debug)]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    /// As JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Exits with 1 unless the server is fine, or busy with requests that end
    #[arg(long)]
    pub(crate) exit_code: bool,
}

#[derive(Args, Debug)]
pub(crate) struct PartitionsArgs {
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    /// As JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    /// Only labels of this namespace
    #[arg(long)]
    pub(crate) namespace: Option<String>,
    /// Only labels with this prefix
    #[arg(long)]
    pub(crate) prefix: Option<String>,
    /// Only labels with this status in at least one class
    #[arg(long, value_parser = statuses())]
    pub(crate) status: Option<String>,
    /// As JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Order of the labels: by name with `label`, else the largest first
    #[arg(long, default_value = "harm", value_parser = SORTS)]
    pub(crate) sort: String,
    /// Exits with 1 unless all of these labels accept
    #[arg(long)]
    pub(crate) exit_code: bool,
}

#[derive(Args, Debug)]
pub(crate) struct DescribeArgs {
    /// The label
    #[arg(required_unless_present = "partition")]
    pub(crate) label: Option<String>,
    /// A partition instead of a label
    #[arg(long, conflicts_with_all = ["label", "namespace"])]
    pub(crate) partition: Option<String>,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    /// The namespace of the label, if it has one
    #[arg(long, default_value = "", hide_default_value = true)]
    pub(crate) namespace: String,
    /// As JSON, with a section for each class under `.admission`
    #[arg(long)]
    pub(crate) json: bool,
    /// Exits with 1 unless the label accepts in all its classes
    #[arg(long)]
    pub(crate) exit_code: bool,
}

#[derive(Args, Debug)]
pub(crate) struct WatchArgs {
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    /// Time between two requests to the server
    #[arg(long, default_value = "1s", value_name = "TIME", value_parser = interval)]
    pub(crate) interval: Duration,
    /// Ends after this many updates
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,
    /// Order of the labels
    #[arg(long, default_value = "harm", value_parser = measures())]
    pub(crate) sort: String,
    /// A line of JSON per update, also on a terminal
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct JournalArgs {
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    /// Number of entries, the newest ones
    #[arg(long, short = 'n', default_value_t = 30, value_name = "N")]
    pub(crate) limit: usize,
    /// Only entries of this kind
    #[arg(long, value_parser = KINDS)]
    pub(crate) kind: Option<String>,
    /// Only decisions about requests of this partition
    #[arg(long)]
    pub(crate) partition: Option<String>,
    /// Only decisions about requests of this namespace
    #[arg(long)]
    pub(crate) namespace: Option<String>,
    /// Only decisions about requests with this label
    #[arg(long)]
    pub(crate) label: Option<String>,
    /// Only decisions with this obstacle, such as `limit`, `label_cap` or `store`
    #[arg(long)]
    pub(crate) rule: Option<String>,
    /// Only decisions with this reason
    #[arg(long, value_parser = reasons())]
    pub(crate) reason: Option<String>,
    /// Only these decisions
    #[arg(long, value_parser = decisions())]
    pub(crate) decision: Option<String>,
    /// Keeps showing new entries, until Ctrl-C
    #[arg(long, short)]
    pub(crate) follow: bool,
    /// Time between two requests to the server
    #[arg(long, default_value = "1s", value_name = "TIME", value_parser = interval, requires = "follow")]
    pub(crate) interval: Duration,
    /// As JSON; with --follow, one entry per line
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct HistoryArgs {
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    /// How long ago it begins, up to an hour
    #[arg(long, default_value = "10m", value_name = "TIME", value_parser = last_hour)]
    pub(crate) last: Duration,
    /// Number of rows that the time is divided into, about
    #[arg(long, short = 'n', default_value_t = 20, value_name = "N", value_parser = positive)]
    pub(crate) rows: usize,
    /// Only this partition
    #[arg(long, conflicts_with_all = ["label", "labels"])]
    pub(crate) partition: Option<String>,
    /// Only this label
    #[arg(long)]
    pub(crate) label: Option<String>,
    /// The namespace of the label, if it has one
    #[arg(long, requires = "label")]
    pub(crate) namespace: Option<String>,
    /// The labels with the most requests of each row
    #[arg(long, conflicts_with = "label")]
    pub(crate) labels: bool,
    /// As JSON: the frames of the server
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct CaptureArgs {
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    /// How far back; with --start, for how long back it remembers [default: all that there is; 5m with --start]
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) last: Option<Duration>,
    /// File that the capture goes to [default: standard output]
    #[arg(long, short = 'o', value_name = "FILE", conflicts_with_all = ["start", "stop"])]
    pub(crate) output: Option<PathBuf>,
    /// Starts the capture
    #[arg(long, conflicts_with = "stop")]
    pub(crate) start: bool,
    /// Memory that the capture may take, in bytes [default: 32 MiB]
    #[arg(long, value_name = "N", requires = "start", value_parser = positive)]
    pub(crate) max_bytes: Option<usize>,
    /// Stops the capture; what it has recorded can be fetched yet
    #[arg(long, conflicts_with = "last")]
    pub(crate) stop: bool,
}

#[derive(Args, Debug)]
pub(crate) struct WhatIfArgs {
    /// The file of `admission capture --output` [default: the capture of the server]
    pub(crate) capture: Option<PathBuf>,
    /// A further policy: the configuration of a server, or `[policy]` of a scenario; may be given several times
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: Vec<PathBuf>,
    /// How far back, of the capture of the server [default: all that there is]
    #[arg(long, value_name = "TIME", value_parser = time, conflicts_with = "capture")]
    pub(crate) last: Option<Duration>,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    /// As JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct PlanArgs {
    /// Number of requests in the burst
    #[arg(long, short = 'n', value_name = "N")]
    pub(crate) requests: usize,
    /// Time within which the requests arrive
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) within: Duration,
    /// Duration of each request: `250ms`, or shortest and longest, `229s..245s`
    #[arg(long, value_name = "TIME[..TIME]", value_parser = times)]
    pub(crate) task_time: (Duration, Duration),
    /// Time for which clients wait for an answer [default: forever]
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) patience: Option<Duration>,
    /// Requests that may run at once [default: the smallest limit that serves all in time; needs --patience]
    #[arg(long, value_name = "N", value_parser = positive)]
    pub(crate) limit: Option<usize>,
    /// Requests that may wait in line [default: fits the limit; with this or a later option, predicts only]
    #[arg(long, value_name = "N", requires = "limit")]
    pub(crate) queue: Option<usize>,
    /// Maximum wait at the full gate, with a queue
    #[arg(long, value_name = "TIME", value_parser = time, requires = "limit")]
    pub(crate) admission_timeout: Option<Duration>,
    /// Maximum wait at the gate and in line together, with a queue
    #[arg(long, value_name = "TIME", value_parser = time, requires = "limit")]
    pub(crate) max_wait: Option<Duration>,
    /// Maximum wait for a slot, without a queue
    #[arg(long, value_name = "TIME", value_parser = time, requires = "limit")]
    pub(crate) wait_timeout: Option<Duration>,
    /// Requests that the server accepts at once
    #[arg(long, value_name = "N", requires = "limit")]
    pub(crate) max_concurrent_streams: Option<usize>,
    /// As JSON, times in seconds
    #[arg(long)]
    pub(crate) json: bool,
    /// Exits with 1 unless all requests are served in time
    #[arg(long)]
    pub(crate) exit_code: bool,
}

#[derive(Args, Debug)]
pub(crate) struct CheckArgs {
    /// Files in TOML or JSON, `-` for standard input; the last file that has a setting wins
    #[arg(required_unless_present = "env")]
    pub(crate) files: Vec<PathBuf>,
    /// Reads the variables TOWER_ADMISSION_… as well; they override the files
    #[arg(long)]
    pub(crate) env: bool,
    /// Shows which settings apply to a label, and their source; the first colon ends the namespace
    #[arg(long, value_name = "NAMESPACE:LABEL")]
    pub(crate) key: Option<String>,
    /// Only this class of work; `*` for classes without rules of their own
    #[arg(long, requires = "key")]
    pub(crate) class: Option<String>,
    /// Shows each setting with its value and its source
    #[arg(long)]
    pub(crate) effective: bool,
    /// Treats warnings as problems
    #[arg(long)]
    pub(crate) deny_warnings: bool,
    /// As JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct SimulateArgs {
    /// Arguments of the simulator
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "OPTION|SCENARIO")]
    pub(crate) arguments: Vec<String>,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }
}
