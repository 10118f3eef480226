-- The average of the winning prices, by category.
SELECT category, AVG(final) AS average
FROM (
  SELECT a.id, a.category, MAX(b.price) AS final
  FROM auction a
  JOIN bid b ON a.id = b.auction
  WHERE b.date_time BETWEEN a.date_time AND a.expires
  GROUP BY a.id, a.category
) AS winning
GROUP BY category
