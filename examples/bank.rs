//! A bank: accounts of a `PerActor` Spot run side by side, and a transfer asks the other account.

use turnkeep::prelude::*;

/// The bank watches its accounts; each has a gate of its own.
#[derive(Default)]
struct Bank {
    opened: u64,
}

struct Account {
    cents: u64,
}

#[derive(Debug, PartialEq)]
enum Refused {
    NotEnough { cents: u64 },
    NoSuchAccount,
}

#[derive(Message)]
#[message(reply = u64)]
struct Deposit(u64);

#[derive(Message)]
#[message(reply = u64, error = Refused)]
struct Transfer {
    to: String,
    cents: u64,
}

#[derive(Message)]
#[message(reply = u64)]
struct Balance;

impl Spot for Bank {
    type Mode = PerActor;

    async fn on_joined_actor(turn: &mut Lifecycle<'_, Self>, _: &Member) -> Result<(), Failure> {
        turn.opened += 1;
        Ok(())
    }
}

#[derive(Message)]
#[message(reply = u64)]
struct Opened;

impl Handles<Opened> for Bank {
    async fn handle(turn: &mut Turn<'_, Self>, _: Opened) -> Result<u64, Never> {
        Ok(turn.opened)
    }
}

impl Actor for Account {}

impl Handles<Deposit> for Account {
    async fn handle(turn: &mut Turn<'_, Self>, deposit: Deposit) -> Result<u64, Never> {
        turn.cents += deposit.0;
        Ok(turn.cents)
    }
}

impl Handles<Balance> for Account {
    async fn handle(turn: &mut Turn<'_, Self>, _: Balance) -> Result<u64, Never> {
        Ok(turn.cents)
    }
}

impl Handles<Transfer> for Account {
    async fn handle(turn: &mut Turn<'_, Self>, transfer: Transfer) -> Result<u64, Refused> {
        if turn.cents < transfer.cents {
            return Err(Refused::NotEnough { cents: turn.cents });
        }
        turn.cents -= transfer.cents;
        // An ordinary wait: this account's gate is kept, so nobody sees the money in between.
        let deposit = turn.actor::<Account>(&transfer.to).ask(Deposit(transfer.cents)).await;
        if deposit.is_err() {
            turn.cents += transfer.cents;
            return Err(Refused::NoSuchAccount);
        }
        Ok(turn.cents)
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let node =
        Node::builder().spot::<Bank>("bank").actor_with::<Account>("account", Options::new()).start().await?;
    let bank = node.spot::<Bank>("bank").create().await?;
    for n in 0..10 {
        node.actor::<Account>(&format!("acc-{n}")).create_in(Account { cents: 1000 }, &bank).await?;
    }

    // A hundred transfers at once, always upwards, so that no two accounts wait for each other.
    let transfers = (0..100_usize).map(|n| {
        let (from, to) = (n % 9, n % 9 + 1);
        let account = node.actor::<Account>(&format!("acc-{from}"));
        let to = format!("acc-{to}");
        node.spawn(async move { account.ask(Transfer { to, cents: 10 }).await })
    });
    for transfer in transfers.collect::<Vec<_>>() {
        transfer.await??;
    }
    let mut total = 0;
    for n in 0..10 {
        total += node.actor::<Account>(&format!("acc-{n}")).ask(Balance).await?;
    }
    println!("{} accounts, {total} cents in all", bank.ask(Opened).await?);
    assert_eq!(total, 10_000);

    let poor = node.actor::<Account>("acc-0").ask(Transfer { to: "acc-1".into(), cents: 1_000_000 }).await;
    println!("too much: {:?}", poor.map_err(AskError::into_application));
    let lost = node.actor::<Account>("acc-9").ask(Transfer { to: "nobody".into(), cents: 1 }).await;
    println!("to nobody: {:?}", lost.map_err(AskError::into_application));
    node.shutdown().await?;
    Ok(())
}
