-- Every bid with its day and minute, by which the original sorts them into files.
SELECT
  auction,
  bidder,
  price,
  date_time,
  extra,
  date_format(date_time, 'yyyy-MM-dd') AS day,
  date_format(date_time, 'HH:mm') AS minute
FROM bid
