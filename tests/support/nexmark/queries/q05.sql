-- The auctions with the most bids in each window of ten seconds. A window starts every two seconds, so a bid is in the five that hop lists.
WITH counted AS (
  SELECT auction, unix_seconds(date_time) DIV 2 - back AS slot, COUNT(*) AS bids
  FROM bid
  CROSS JOIN hop
  GROUP BY auction, unix_seconds(date_time) DIV 2 - back
)
SELECT c.auction, c.bids, timestamp_seconds(2 * c.slot) AS starts
FROM counted c
JOIN (
  SELECT slot, MAX(bids) AS most
  FROM counted
  GROUP BY slot
) AS top
  ON c.slot = top.slot
  AND c.bids = top.most
