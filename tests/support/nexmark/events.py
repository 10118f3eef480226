"""A seeded auction house: of fifty events one registers a person, three open auctions and the others are bids.

Events are half a second apart on average and no two share a time, so every ranking by time is unique.
"""

from __future__ import annotations

import random
from datetime import datetime, timedelta

Row = tuple[object, ...]

TABLES = {
    "person": "id BIGINT, name STRING, email_address STRING, credit_card STRING, city STRING, state STRING, date_time TIMESTAMP, extra STRING",
    "auction": "id BIGINT, item_name STRING, description STRING, initial_bid BIGINT, reserve BIGINT, date_time TIMESTAMP, "
    "expires TIMESTAMP, seller BIGINT, category BIGINT, extra STRING",
    "bid": "auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, date_time TIMESTAMP, extra STRING",
    "side_input": "key BIGINT, value STRING",
    "hop": "back BIGINT",
}
FIRST_ID = 1000
START = datetime(2026, 3, 1, 23, 57)
"""Shortly before midnight, so that queries by day see two days."""

PLACES = [("Phoenix", "AZ"), ("Bend", "OR"), ("Boise", "ID"), ("Kent", "WA"), ("Redding", "CA"), ("Cheyenne", "WY")]
NAMES = "Ada Bob Cleo Dan Eve Finn Gus Hal".split()
CHANNELS = "Google Facebook Baidu Apple".split()


class AuctionHouse:
    """Makes the next events whenever asked."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.now = START
        self.count = 0
        self.people = 0
        self.auctions = 0

    def events(self, count: int) -> dict[str, list[Row]]:
        """The rows that the next events add to each table."""
        rows: dict[str, list[Row]] = {"person": [], "auction": [], "bid": []}
        for _ in range(count):
            self.now += timedelta(milliseconds=self.random.randint(1, 999))
            place = self.count % 50
            self.count += 1
            if place == 0:
                rows["person"].append(self._person())
            elif place in (1, 2, 3):
                rows["auction"].append(self._auction())
            else:
                rows["bid"].append(self._bid())
        return rows

    def _person(self) -> Row:
        self.people += 1
        name = self.random.choice(NAMES)
        city, state = self.random.choice(PLACES)
        card = " ".join(f"{self.random.randint(0, 9999):04}" for _ in range(4))
        return (FIRST_ID + self.people, name, f"{name.lower()}{self.people}@example.com", card, city, state, self.now, self._text())

    def _auction(self) -> Row:
        self.auctions += 1
        first = self._price()
        expires = self.now + timedelta(seconds=self.random.randint(5, 60))
        seller = FIRST_ID + self._recent(self.people, 2)
        category = self.random.randint(10, 14)
        return (
            FIRST_ID + 100 + self.auctions,
            f"item {self.auctions}",
            self._text(),
            first,
            first + self._price(),
            self.now,
            expires,
            seller,
            category,
            self._text(),
        )

    def _bid(self) -> Row:
        auction = FIRST_ID + 100 + self._recent(self.auctions, 10)
        bidder = FIRST_ID + self.random.randint(1, self.people)
        url = "https://www.example.com/" + "/".join(self.random.choice("abcde") * 3 for _ in range(3)) + "/item.htm?query=1"
        number = self.random.randint(0, 7)
        if number < len(CHANNELS):
            return (auction, bidder, self._price(), CHANNELS[number], url, self.now, self._text())
        tail = f"&channel_id={number}" if number % 2 else ""
        return (auction, bidder, self._price(), f"channel-{number}", url + tail, self.now, self._text())

    def _recent(self, count: int, last: int) -> int:
        """A number up to `count`, most often one of the last few."""
        return self.random.randint(max(1, count - last + 1), count) if self.random.random() < 0.9 else self.random.randint(1, count)

    def _price(self) -> int:
        return round(100 * 10 ** (self.random.random() * 6))

    def _text(self) -> str:
        return "".join(self.random.choices("abcdef ", k=12))
