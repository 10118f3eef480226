-- Bids with their auction, of one category.
SELECT
  b.auction, b.bidder, b.price, b.channel, b.url, b.date_time, b.extra,
  a.item_name, a.description, a.initial_bid, a.reserve, a.date_time AS opened, a.expires, a.seller, a.category
FROM bid b
JOIN auction a ON b.auction = a.id
WHERE a.category = 10
