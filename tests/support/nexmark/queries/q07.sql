-- The highest bids of each ten seconds.
SELECT b.auction, b.price, b.bidder, b.date_time
FROM bid b
JOIN (
  SELECT unix_seconds(date_time) DIV 10 AS slot, MAX(price) AS most
  FROM bid
  GROUP BY unix_seconds(date_time) DIV 10
) AS top
  ON unix_seconds(b.date_time) DIV 10 = top.slot
  AND b.price = top.most
