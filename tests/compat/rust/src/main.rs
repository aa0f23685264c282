//! rocketmq-client-rust, told the same as the clients of ../node: a line of stdin asks for a scenario
//! (../runner.py), a line of stdout is its answer.
//!
//!     7 TAB send TAB nameServer=127.0.0.1:9876 TAB topic=t TAB group=g TAB tag=a TAB count=2 TAB size=0
//!     {"id":"7","name":"send","ok":true,"error":null,"seconds":0.1,"details":{"sent":["SEND_OK","SEND_OK"]}}

#![recursion_limit = "512"]

use std::collections::HashMap;
use std::error::Error;
use std::io::BufRead;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use percent_encoding::percent_decode_str;
use rocketmq_client_rust::{
    ClientResult, ClientRuntime, ClientRuntimeConfig, ConsumeConcurrentlyContext,
    ConsumeConcurrentlyStatus, DefaultMQProducer, DefaultMQPushConsumer, MQPushConsumer,
    MessageListenerConcurrently,
};
use rocketmq_model::common::message::message_ext::MessageExt;
use rocketmq_model::common::message::message_single::Message;
use rocketmq_model::common::message::MessageTrait;
use rocketmq_runtime::{RuntimeConfig, RuntimeOwner};
use serde_json::{json, Value};

const SEND_TIMEOUT_MS: u64 = 60_000;

type Given = HashMap<String, String>;
type Outcome = Result<Value, Box<dyn Error>>;

/// Refuses each message so many times, and keeps what it got.
#[derive(Clone)]
struct Listener {
    failures: i32,
    received: Arc<Mutex<Vec<Value>>>,
}

impl MessageListenerConcurrently for Listener {
    fn consume_message(
        &self,
        messages: &[&MessageExt],
        _context: &ConsumeConcurrentlyContext,
    ) -> ClientResult<ConsumeConcurrentlyStatus> {
        let mut is_refused = false;
        for message in messages {
            let body = message.body().unwrap_or_default();
            self.received.lock().unwrap().push(json!({
                "topic": message.topic().as_str(),
                "tags": message.get_tags().map(|tags| tags.to_string()),
                "keys": message.get_keys().map(|keys| keys.to_string()),
                "body": String::from_utf8_lossy(&body),
            }));
            is_refused |= message.reconsume_times() < self.failures;
        }
        Ok(if is_refused {
            ConsumeConcurrentlyStatus::ReconsumeLater
        } else {
            ConsumeConcurrentlyStatus::ConsumeSuccess
        })
    }
}

struct Scenarios {
    runtime: Arc<ClientRuntime>,
    open: HashMap<String, (DefaultMQPushConsumer, Listener)>, // by group
}

impl Scenarios {
    async fn run(&mut self, name: &str, given: &Given) -> Outcome {
        match name {
            "send" => self.send(given).await,
            "open" => self.open(given).await,
            "received" => {
                let (_, listener) = &self.open[&given["group"]];
                Ok(json!({"messages": *listener.received.lock().unwrap()}))
            }
            "close" => {
                if let Some((mut consumer, _)) = self.open.remove(&given["group"]) {
                    consumer.shutdown().await;
                }
                Ok(json!({}))
            }
            _ => Err(format!("there is no scenario {name}").into()),
        }
    }

    async fn send(&self, given: &Given) -> Outcome {
        let mut producer = DefaultMQProducer::builder(self.runtime.clone())
            .producer_group(given["group"].clone())
            .name_server_addr(given["nameServer"].clone())
            .build();
        producer.start().await?;
        let size: usize = given["size"].parse()?;
        let mut sent = Vec::new();
        for number in 0..given["count"].parse::<u32>()? {
            let body = format!("{:.<size$}", format!("body-{number}"));
            let message = Message::builder()
                .topic(given["topic"].clone())
                .tags(given["tag"].clone())
                .keys(vec![format!("k{number}")])
                .body_slice(body.as_bytes())
                .build()?;
            let result = producer.send_with_timeout(message, SEND_TIMEOUT_MS).await?;
            sent.push(result.map_or("nothing".into(), |each| each.send_status.to_string()));
        }
        producer.shutdown().await;
        Ok(json!({"sent": sent}))
    }

    async fn open(&mut self, given: &Given) -> Outcome {
        let mut consumer = DefaultMQPushConsumer::builder(self.runtime.clone())
            .consumer_group(given["group"].clone())
            .name_server_addr(given["nameServer"].clone())
            .build();
        consumer.subscribe(given["topic"].as_str(), given["tag"].as_str()).await?;
        let listener =
            Listener { failures: given["failures"].parse()?, received: Arc::default() };
        consumer.register_message_listener_concurrently(listener.clone());
        consumer.start().await?;
        self.open.insert(given["group"].clone(), (consumer, listener));
        Ok(json!({}))
    }
}

fn named(words: &[&str]) -> Given {
    let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
    words
        .iter()
        .filter_map(|word| word.split_once('='))
        .map(|(name, value)| (name.to_string(), decoded(value)))
        .collect()
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let owner = RuntimeOwner::plan(RuntimeConfig::default())?.build()?;
    let telemetry = rocketmq_observability::install_global(
        &rocketmq_observability::TelemetryBootstrapConfig::default(),
    )?;
    let runtime = ClientRuntime::try_new(
        owner.root_context().component("client"),
        ClientRuntimeConfig::default(),
        telemetry.handle(),
    )?;
    let mut scenarios = Scenarios { runtime, open: HashMap::new() };
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let words: Vec<&str> = line.split('\t').collect();
        let began = Instant::now();
        let outcome = scenarios.run(words[1], &named(&words[2..])).await;
        let (details, error) = match outcome {
            Ok(details) => (details, Value::Null),
            Err(error) => (json!({}), json!(format!("{error:?}"))),
        };
        let answer = json!({
            "id": words[0], "name": words[1], "ok": error.is_null(), "error": error,
            "seconds": began.elapsed().as_secs_f64(), "details": details,
        });
        println!("{answer}");
    }
    std::process::exit(0)
}
