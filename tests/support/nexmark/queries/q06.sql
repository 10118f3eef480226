-- For each seller, the average winning price of an auction and the ten before it.
WITH ranked AS (
  SELECT
    a.id,
    a.seller,
    b.price,
    b.date_time,
    ROW_NUMBER() OVER (PARTITION BY a.id ORDER BY b.price DESC, b.date_time, b.bidder) AS place
  FROM auction a
  JOIN bid b ON a.id = b.auction
  WHERE b.date_time BETWEEN a.date_time AND a.expires
)
SELECT
  seller,
  id AS auction,
  AVG(price) OVER (
    PARTITION BY seller
    ORDER BY date_time, id
    ROWS BETWEEN 10 PRECEDING AND CURRENT ROW
  ) AS average
FROM ranked
WHERE place = 1
