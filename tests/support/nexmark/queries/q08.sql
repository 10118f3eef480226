-- People who opened an auction in the ten seconds in which they registered.
SELECT p.id, p.name, p.starts
FROM (
  SELECT DISTINCT id, name, window(date_time, '10 seconds').start AS starts
  FROM person
) AS p
JOIN (
  SELECT DISTINCT seller, window(date_time, '10 seconds').start AS starts
  FROM auction
) AS a
  ON p.id = a.seller
  AND p.starts = a.starts
