"""The demo's shop: its topics, producers and consumer groups, and the planned outcome of each message.

A producer writes the plan of a message into its user properties, so that every consumer process, of this run or of a later one,
follows it. `plan.<group>` has the listener's outcome of the first, second, … attempt; the last one repeats. `plan.transaction`
has the first decision of the transaction listener, then those of the checks.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from sandbox.java_client import CLOUD_TRACE_TOPIC, TRACE_TOPIC, Subscription, Tracing

CUSTOM_TRACE_TOPIC = "TRACE_CUSTOM"
TRACE_TOPICS = (TRACE_TOPIC, CUSTOM_TRACE_TOPIC, CLOUD_TRACE_TOPIC)
QUEUES = 4
PYTHON_PRODUCER = "python-order-producer"
ALWAYS = "*"

DEFAULT = Tracing()
CUSTOM = Tracing(topic=CUSTOM_TRACE_TOPIC)
CLOUD = Tracing(cloud=True)

ORDERS = "orders"
PAYMENTS = "payments"
SHIPMENTS = "shipments"
PRICES = "prices"
CLICKS = "clicks"
AUDIT = "audit-log"  # no group consumes it
READINGS = "sensor-readings"
JOBS = "cloud-jobs"
TOPICS = (ORDERS, PAYMENTS, SHIPMENTS, PRICES, CLICKS, AUDIT, READINGS, JOBS)

STOCK = Subscription("stock-service", {ORDERS: ALWAYS})
MAIL = Subscription("mail-service", {ORDERS: ALWAYS}, consume_timeout_minutes=1)
SEARCH = Subscription("search-indexer", {ORDERS: ALWAYS, CLICKS: ALWAYS}, batch=8)
INVOICES = Subscription("invoice-service", {PAYMENTS: "CARD || BANK"}, max_reconsume_times=2)
LEDGER = Subscription("shipping-ledger", {SHIPMENTS: ALWAYS}, orderly=True)
PRICE_CACHE = Subscription("price-cache", {PRICES: ALWAYS}, broadcast=True)
GATEWAY = Subscription("sensor-gateway", {READINGS: ALWAYS})
WORKERS = Subscription("cloud-workers", {JOBS: ALWAYS})


@dataclass(frozen=True)
class ProducerSpec:
    """A producer of an application, by its group."""

    group: str
    tracing: Tracing = DEFAULT
    transactional: bool = False


@dataclass(frozen=True)
class App:
    """One process: several producers and consumers in one JVM, as a Spring application has them."""

    name: str
    producers: tuple[ProducerSpec, ...]
    consumers: tuple[tuple[Subscription, Tracing], ...]


APPS = (
    App(
        "shop",
        (ProducerSpec("order-producer"), ProducerSpec("payment-producer", transactional=True)),
        ((STOCK, DEFAULT), (MAIL, DEFAULT), (PRICE_CACHE, DEFAULT)),
    ),
    App(
        "warehouse",
        (ProducerSpec("shipment-producer"), ProducerSpec("price-producer")),
        ((STOCK, DEFAULT), (SEARCH, DEFAULT), (INVOICES, DEFAULT), (LEDGER, DEFAULT), (PRICE_CACHE, DEFAULT)),
    ),
    App(
        "edge",
        (ProducerSpec("sensor-producer", CUSTOM), ProducerSpec("job-producer", CLOUD)),
        ((GATEWAY, CUSTOM), (WORKERS, CLOUD)),
    ),
)
SUBSCRIPTIONS = {subscription.group: subscription for app in APPS for subscription, _ in app.consumers}
CONSUMERS_OF_GROUP = {
    group: [app.name for app in APPS for s, _ in app.consumers if s.group == group] for group in SUBSCRIPTIONS
}


@dataclass(frozen=True)
class Send:
    """One send call to make; `copies` makes a batch of several messages."""

    kind: str
    producer: str
    topic: str
    tags: str | None = None
    copies: int = 1
    delay_level: int = 0
    plan: dict[str, str] = field(default_factory=dict)

    @property
    def properties(self) -> dict[str, str]:
        return {f"plan.{who}": outcomes for who, outcomes in self.plan.items()}


def app(name: str) -> App:
    """The application of that name."""
    return next(a for a in APPS if a.name == name)


def bulk_sends(app_name: str, messages: int) -> list[Send]:
    """The plain traffic of one application; all applications together send `messages` messages."""
    shipments, prices, payments = messages * 15 // 100, messages // 10, messages * 15 // 100
    if app_name == "warehouse":
        return [Send("orderly", "shipment-producer", SHIPMENTS, "PACKED")] * shipments + [
            Send("normal", "price-producer", PRICES, "CHANGED")
        ] * prices
    if app_name == "shop":
        orders = messages - shipments - prices - payments
        return [Send("normal", "order-producer", ORDERS, "CREATED")] * orders + [
            Send("normal", "payment-producer", PAYMENTS, "CARD")
        ] * payments
    return []


def python_sends(messages: int) -> list[Send]:
    """What a producer of rocketmq-client-python sends, where its library is present: a tenth of the plain traffic more."""
    return [Send("normal", PYTHON_PRODUCER, ORDERS, "CREATED")] * max(1, messages // 10)


def special_sends(app_name: str, full: bool) -> list[Send]:
    """The special cases, a few messages each."""
    if app_name == "warehouse":
        held_up = [{LEDGER.group: plan} for plan in ("suspend,success", "exception,success")]
        return [Send("orderly", "shipment-producer", SHIPMENTS, "PACKED", plan=plan) for plan in held_up * 4]
    if app_name == "edge":
        return [Send("custom_trace", "sensor-producer", READINGS, "TEMPERATURE")] * 20 + [
            Send("cloud", "job-producer", JOBS, "RESIZE")
        ] * 20
    slow = Send("normal", "order-producer", ORDERS, "CREATED", plan={MAIL.group: "timeout,success"})
    return _shop_sends() + ([slow] * 2 if full else [])


def _shop_sends() -> list[Send]:
    mail_plans = (
        "exception,success",
        "reconsume_later,success",
        "null,success",
        "exception,null,reconsume_later,success",
    )
    transaction_plans = ("commit", "rollback", "unknown,commit", "unknown,rollback")
    return [
        *(
            Send("normal", "order-producer", ORDERS, "CREATED", plan={MAIL.group: plan})
            for plan in mail_plans * 6
        ),
        *[Send("async", "order-producer", ORDERS, "CREATED")] * 20,
        *[Send("batch", "order-producer", ORDERS, "IMPORTED", copies=5)] * 6,
        *[Send("delay", "order-producer", ORDERS, "REMINDER", delay_level=2)] * 6,
        *[Send("delay", "order-producer", ORDERS, "REMINDER", delay_level=7)] * 6,
        *[Send("unconsumed", "order-producer", AUDIT, "LOGIN")] * 10,
        *[Send("one_way", "order-producer", CLICKS, "CLICK")] * 10,
        *[Send("normal", "payment-producer", PAYMENTS, "BANK", plan={INVOICES.group: "exception"})] * 5,
        *(
            Send("transaction", "payment-producer", PAYMENTS, "CARD", plan={"transaction": plan})
            for plan in transaction_plans * 6
        ),
        *[Send("transaction", "payment-producer", PAYMENTS, "CARD", plan={"transaction": "unknown"})] * 2,
    ]


def late_sends(app_name: str) -> list[Send]:
    """Messages whose tag no group of their topic subscribes to, sent after everything else was consumed.

    A group is expected on a topic from its first attempt there, so these come last. More messages follow on each queue: the
    group consumes them, so its offsets pass the others, and its traces show that it still writes some.
    """
    if app_name == "shop":
        vouchers = [Send("filtered", "payment-producer", PAYMENTS, "VOUCHER")] * 6
        return [*vouchers, *[Send("normal", "payment-producer", PAYMENTS, "BANK")] * 8]
    return []


def groups_of(topic: str, tags: str | None) -> list[Subscription]:
    """The subscriptions that receive a message of this topic and tag, one per group."""
    return [
        subscription
        for subscription in SUBSCRIPTIONS.values()
        if (wanted := subscription.topics.get(topic)) and (wanted == ALWAYS or tags in wanted.split(" || "))
    ]


def attempt_outcome(plan: str | None, attempt: int) -> str:
    """The planned outcome of an attempt (0: the first); success without a plan."""
    steps = (plan or "success").split(",")
    return steps[min(attempt, len(steps) - 1)]
