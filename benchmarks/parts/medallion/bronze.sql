-- Bronze: every delivery with clean types and names.

-- bronze_customers
SELECT id AS change_id, customer_id, trim(name) AS name, tier, lower(street) AS street, country, tax_id, at FROM {raw}.customers;
-- bronze_accounts
SELECT id AS change_id, account_id, customer_id, broker_id, upper(status) AS status, description, at FROM {raw}.accounts;
-- bronze_companies
SELECT id AS change_id, company_id, trim(name) AS name, industry_id, rating, at FROM {raw}.companies;
-- bronze_securities
SELECT id AS change_id, symbol_id, company_id, symbol, shares, exchange, at FROM {raw}.securities;
-- bronze_financials
SELECT id AS report_id, company_id, year, quarter, revenue, earnings, revenue - earnings AS costs, at FROM {raw}.financials;
-- bronze_trades
SELECT trade_id, account_id, symbol_id, type_id, quantity, price, fee, CAST(quantity * price AS DECIMAL(14, 2)) AS value, at FROM {raw}.trades;
-- bronze_trade_events
SELECT id AS event_id, trade_id, status_id, at FROM {raw}.trade_events;
-- bronze_cash
SELECT cash_id, account_id, amount, IF(amount < 0, 'out', 'in') AS direction, description, at, CAST(at AS DATE) AS day FROM {raw}.cash;
-- bronze_holdings
SELECT holding_id, trade_id, before_quantity, after_quantity, after_quantity - before_quantity AS moved FROM {raw}.holdings;
-- bronze_market
SELECT symbol_id, day, close, high, low, volume FROM {raw}.market WHERE volume >= 0;
-- bronze_watches
SELECT id AS watch_id, customer_id, symbol_id, action, at FROM {raw}.watches;
-- bronze_prospects
SELECT prospect_id, trim(name) AS name, worth, age, cars, at FROM {raw}.prospects WHERE name IS NOT NULL;
-- bronze_brokers
SELECT broker_id, name, branch, manager_id FROM {raw}.brokers;
-- bronze_industries
SELECT industry_id, name, sector FROM {raw}.industries;
-- bronze_statuses
SELECT status_id, name FROM {raw}.statuses;
-- bronze_trade_types
SELECT type_id, name, is_sell, is_market FROM {raw}.trade_types;
-- bronze_tax_rates
SELECT tax_id, rate FROM {raw}.tax_rates;
-- bronze_dates
SELECT day, YEAR(day) AS year, MONTH(day) AS month, DAYOFWEEK(day) AS weekday FROM {raw}.dates
