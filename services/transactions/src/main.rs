//! The `transactions` program. Everything is in the library.

use std::{env, process::ExitCode};

const USAGE: &str = "\
Transfers between users.

Usage: transactions [serve|settle]

  serve    answer requests (the default)
  settle   settle transfers: consume TransactionCreated from RabbitMQ

Environment variables configure the program: services/transactions/README.md lists them.
";

/// A request allocates and frees dozens of small pieces of memory.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main]
async fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        [] | ["serve"] => services_web::main("transactions", transactions::serve).await,
        ["settle"] => services_web::main("transactions", transactions::settle).await,
        ["help" | "--help" | "-h"] => {
            print!("{USAGE}");
            ExitCode::SUCCESS
        }
        _ => {
            eprint!("error: unknown command: {}\n\n{USAGE}", words.join(" "));
            ExitCode::from(2)
        }
    }
}
