-- Gold: dimensions, facts and what reports show.

-- gold_dim_customer
SELECT c.change_id, c.customer_id, c.name, c.tier, c.country, t.rate AS tax_rate, c.valid_from, c.valid_to,
       c.valid_to = TIMESTAMP '9999-12-31' AS is_current
FROM silver_customers c JOIN bronze_tax_rates t ON c.tax_id = t.tax_id;
-- gold_dim_account
SELECT change_id, account_id, customer, tier, broker, branch, status, valid_from, valid_to, valid_to = TIMESTAMP '9999-12-31' AS is_current
FROM silver_accounts;
-- gold_dim_security
SELECT change_id, symbol_id, symbol, company, sector, exchange, shares, valid_from, valid_to FROM silver_securities;
-- gold_dim_trade
SELECT t.trade_id, s.name AS status, t.placed_at, t.done_at, t.quantity, t.price, t.fee
FROM silver_trades t LEFT JOIN bronze_statuses s ON t.status_id = s.status_id;
-- gold_fact_trade
SELECT t.trade_id, a.change_id AS account_version, s.change_id AS security_version, a.customer_id, a.broker, a.branch, s.sector,
       t.quantity, t.value, t.fee, CAST(t.at AS DATE) AS day
FROM silver_trades t
JOIN silver_accounts a ON t.account_id = a.account_id AND t.at >= a.valid_from AND t.at < a.valid_to
JOIN silver_securities s ON t.symbol_id = s.symbol_id AND t.at >= s.valid_from AND t.at < s.valid_to;
-- gold_fact_cash
SELECT account_id, customer_id, day, SUM(amount) AS amount, COUNT(*) AS transfers FROM silver_cash GROUP BY account_id, customer_id, day;
-- gold_cash_balance
SELECT account_id, day, amount, SUM(amount) OVER (PARTITION BY account_id ORDER BY day, customer_id ROWS UNBOUNDED PRECEDING) AS balance FROM gold_fact_cash;
-- gold_fact_holdings
SELECT h.holding_id, h.trade_id, a.change_id AS account_version, h.symbol_id, h.after_quantity, h.moved
FROM silver_holdings h
JOIN silver_account_versions a ON h.account_id = a.account_id AND h.at >= a.valid_from AND h.at < a.valid_to;
-- gold_fact_watches
SELECT w.customer_id, w.symbol_id, c.tier, w.began_at, w.ceased_at
FROM silver_watches w
JOIN silver_customers c ON w.customer_id = c.customer_id AND w.began_at >= c.valid_from AND w.began_at < c.valid_to;
-- gold_fact_market_history
SELECT symbol_id, day, close, volume,
       MAX(high) OVER (PARTITION BY symbol_id ORDER BY day ROWS BETWEEN 364 PRECEDING AND CURRENT ROW) AS high_of_year,
       MIN(low) OVER (PARTITION BY symbol_id ORDER BY day ROWS BETWEEN 364 PRECEDING AND CURRENT ROW) AS low_of_year
FROM silver_market;
-- gold_market_volatility
SELECT symbol_id, YEAR(day) AS year, MONTH(day) AS month, STDDEV(close) AS deviation, MAX(high) AS high, MIN(low) AS low, SUM(volume) AS volume
FROM silver_market GROUP BY symbol_id, YEAR(day), MONTH(day);
-- gold_trades_by_broker
SELECT broker, branch, day, COUNT(*) AS trades, SUM(value) AS value, SUM(fee) AS fees FROM gold_fact_trade GROUP BY broker, branch, day;
-- gold_trades_by_sector
SELECT f.sector, d.year, d.month, COUNT(*) AS trades, SUM(f.value) AS value, AVG(f.quantity) AS quantity
FROM gold_fact_trade f JOIN bronze_dates d ON f.day = d.day GROUP BY f.sector, d.year, d.month;
-- gold_customer_value
SELECT c.customer_id, c.name, c.country, COUNT(f.trade_id) AS trades, SUM(f.value) AS value
FROM gold_dim_customer c LEFT JOIN gold_fact_trade f ON c.customer_id = f.customer_id WHERE c.is_current GROUP BY c.customer_id, c.name, c.country;
-- gold_top_customers
SELECT customer_id, name, country, value, RANK() OVER (PARTITION BY country ORDER BY value DESC) AS place FROM gold_customer_value WHERE value IS NOT NULL;
-- gold_prospect_pool
SELECT is_customer, age DIV 10 AS decade, COUNT(*) AS people, AVG(worth) AS worth, MAX(worth) AS richest FROM silver_prospects GROUP BY is_customer, age DIV 10
