-- Silver: versions with the time they were valid (windows), facts joined to the version of their time (range joins), states of things (aggregates).

-- silver_customers
SELECT change_id, customer_id, name, tier, street, country, tax_id, at AS valid_from,
       LEAD(at, 1, TIMESTAMP '9999-12-31') OVER (PARTITION BY customer_id ORDER BY at, change_id) AS valid_to FROM bronze_customers;
-- silver_account_versions
SELECT change_id, account_id, customer_id, broker_id, status, description, at AS valid_from,
       LEAD(at, 1, TIMESTAMP '9999-12-31') OVER (PARTITION BY account_id ORDER BY at, change_id) AS valid_to FROM bronze_accounts;
-- silver_company_versions
SELECT change_id, company_id, name, industry_id, rating, at AS valid_from,
       LEAD(at, 1, TIMESTAMP '9999-12-31') OVER (PARTITION BY company_id ORDER BY at, change_id) AS valid_to FROM bronze_companies;
-- silver_companies
SELECT c.change_id, c.company_id, c.name, c.rating, i.name AS industry, i.sector, c.valid_from, c.valid_to
FROM silver_company_versions c JOIN bronze_industries i ON c.industry_id = i.industry_id;
-- silver_security_versions
SELECT change_id, symbol_id, company_id, symbol, shares, exchange, at AS valid_from,
       LEAD(at, 1, TIMESTAMP '9999-12-31') OVER (PARTITION BY symbol_id ORDER BY at, change_id) AS valid_to FROM bronze_securities;
-- silver_securities
SELECT s.change_id, s.symbol_id, s.symbol, s.shares, s.exchange, c.name AS company, c.sector, s.valid_from, s.valid_to
FROM silver_security_versions s
JOIN silver_companies c ON s.company_id = c.company_id AND s.valid_from >= c.valid_from AND s.valid_from < c.valid_to;
-- silver_accounts
SELECT a.change_id, a.account_id, a.customer_id, c.name AS customer, c.tier, b.name AS broker, b.branch, a.status, a.valid_from, a.valid_to
FROM silver_account_versions a
LEFT JOIN silver_customers c ON a.customer_id = c.customer_id AND a.valid_from >= c.valid_from AND a.valid_from < c.valid_to
JOIN bronze_brokers b ON a.broker_id = b.broker_id;
-- silver_financials
SELECT f.report_id, f.company_id, c.name AS company, c.rating, f.year, f.quarter, f.revenue, f.earnings
FROM bronze_financials f
JOIN silver_companies c ON f.company_id = c.company_id AND f.at >= c.valid_from AND f.at < c.valid_to;
-- silver_trade_history
SELECT e.event_id, e.trade_id, t.account_id, t.symbol_id, s.name AS status, y.name AS type, t.value, e.at
FROM bronze_trade_events e
JOIN bronze_trades t ON e.trade_id = t.trade_id
JOIN bronze_statuses s ON e.status_id = s.status_id
JOIN bronze_trade_types y ON t.type_id = y.type_id;
-- silver_trade_states
SELECT trade_id, MIN(at) AS placed_at, MAX(at) AS done_at, COUNT(*) AS events, MAX(status_id) AS status_id FROM bronze_trade_events GROUP BY trade_id;
-- silver_trades
SELECT t.trade_id, t.account_id, t.symbol_id, t.quantity, t.price, t.value, t.fee, s.placed_at, s.done_at, s.status_id, t.at
FROM bronze_trades t LEFT JOIN silver_trade_states s ON t.trade_id = s.trade_id;
-- silver_cash
SELECT k.cash_id, k.account_id, a.customer_id, k.amount, k.direction, k.day, k.at
FROM bronze_cash k
JOIN silver_account_versions a ON k.account_id = a.account_id AND k.at >= a.valid_from AND k.at < a.valid_to;
-- silver_holdings
SELECT h.holding_id, h.trade_id, t.account_id, t.symbol_id, h.before_quantity, h.after_quantity, h.moved, t.at
FROM bronze_holdings h JOIN bronze_trades t ON h.trade_id = t.trade_id;
-- silver_market
SELECT m.symbol_id, m.day, m.close, m.high, m.low, m.volume, s.symbol, s.company_id
FROM bronze_market m
JOIN silver_security_versions s
  ON m.symbol_id = s.symbol_id AND CAST(m.day AS TIMESTAMP) >= s.valid_from AND CAST(m.day AS TIMESTAMP) < s.valid_to;
-- silver_watches
SELECT customer_id, symbol_id, MIN(IF(action = 'begin', at, NULL)) AS began_at, MAX(IF(action = 'cease', at, NULL)) AS ceased_at
FROM bronze_watches GROUP BY customer_id, symbol_id;
-- silver_prospects
SELECT p.prospect_id, p.name, p.worth, p.age, c.name IS NOT NULL AS is_customer
FROM bronze_prospects p LEFT JOIN (SELECT DISTINCT name FROM bronze_customers) c ON p.name = c.name
