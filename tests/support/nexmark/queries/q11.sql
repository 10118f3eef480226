-- How many bids each person made in a session; ten silent seconds end it.
WITH marked AS (
  SELECT
    bidder,
    date_time,
    CASE
      WHEN date_time < LAG(date_time) OVER (PARTITION BY bidder ORDER BY date_time, auction) + INTERVAL '10' SECOND THEN 0
      ELSE 1
    END AS opens,
    auction
  FROM bid
),
numbered AS (
  SELECT
    bidder,
    date_time,
    SUM(opens) OVER (PARTITION BY bidder ORDER BY date_time, auction ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS session
  FROM marked
)
SELECT
  bidder,
  COUNT(*) AS bids,
  MIN(date_time) AS starts,
  MAX(date_time) + INTERVAL '10' SECOND AS ends
FROM numbered
GROUP BY bidder, session
