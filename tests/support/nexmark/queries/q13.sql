-- Bids with the value that a small table holds for their auction.
SELECT b.auction, b.bidder, b.price, b.date_time, s.value
FROM bid b
JOIN side_input s ON b.auction % 10000 = s.key
