//! The `transactions` program. Everything is in the library.

use std::{env, process::ExitCode};

const USAGE: &str = "\
Transfers between users.

Usage: transactions [serve|settle]

  serve    answer requests (what it does without a word)
  settle   settle transfers: consume TransactionCreated from RabbitMQ

Everything else is set by environment variables: services/transactions/README.md has them all.
";

/// A request allocates and frees some dozens of small pieces.
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
