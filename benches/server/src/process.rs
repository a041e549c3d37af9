//! A server in a process of its own.

use std::{
    collections::BTreeSet,
    env, fs,
    io::{self, BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    process::{self, Child, Command, Stdio},
    thread,
};

use tokio::net::TcpListener;

use crate::apps::app;

/// Serves an app on a free port until standard input ends.
pub(crate) fn serve(name: &str, workers: usize) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(workers).enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let app = app(name).await;
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        println!("{}", listener.local_addr().expect("it is bound"));
        io::stdout().flush().expect("the bench listens");
        thread::spawn(|| {
            // Nothing is ever written: the bench is gone.
            let _ = io::stdin().read(&mut [0]);
            process::exit(0);
        });
        axum::serve(listener, app).await.expect("it serves until the process ends");
    });
}

/// A server that ends with this.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl Server {
    pub(crate) fn start(name: &str, workers: usize) -> Self {
        let program = env::current_exe().expect("this program has a path");
        let mut child = Command::new(program)
            .args(["serve", name, &workers.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("this program runs");
        let mut line = String::new();
        let output = child.stdout.take().expect("its output is piped");
        BufReader::new(output).read_line(&mut line).expect("the server says its address");
        Self { child, address: line.trim().parse().expect("an address") }
    }

    /// The status line, the names of the headers and the body of an answer.
    pub(crate) fn answer(&self) -> (String, BTreeSet<String>, String) {
        let mut stream = TcpStream::connect(self.address).expect("the server listens");
        write!(stream, "GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").expect("the server reads");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("the server answers");
        let (head, body) = text.split_once("\r\n\r\n").expect("an answer has a head");
        let mut lines = head.lines();
        let status = lines.next().expect("an answer has a status").to_owned();
        let names = lines.filter_map(|line| Some(line.split_once(':')?.0.to_ascii_lowercase())).collect();
        (status, names, body.to_owned())
    }

    /// Nanoseconds that all threads of the server spent on a processor, where the system tells them.
    pub(crate) fn cpu_time(&self) -> Option<u64> {
        let threads = fs::read_dir(format!("/proc/{}/task", self.child.id())).ok()?;
        let times = threads.map(|thread| {
            let text = fs::read_to_string(thread.ok()?.path().join("schedstat")).ok()?;
            text.split_whitespace().next()?.parse::<u64>().ok()
        });
        times.sum()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
