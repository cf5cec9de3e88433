#include "store/migrations.h"

#include <fmt/format.h>

namespace hs {
namespace {

// "HSrl": tells our files from other SQLite files, in `file` and in migrate().
constexpr int64_t kApplicationId = 0x4853726C;

constexpr const char* kSteps[] = {
    // Times are microseconds, NULL where a stage did not happen. `id` is the client's or ours and
    // need not be unique.
    R"sql(
      CREATE TABLE requests (
        row               INTEGER PRIMARY KEY,
        id                TEXT NOT NULL,
        ts_ms             INTEGER NOT NULL,
        endpoint          TEXT,
        model             TEXT,
        client            TEXT,
        status            INTEGER,
        error_code        TEXT,
        finish_reason     TEXT,
        stream            INTEGER NOT NULL,
        n_images          INTEGER,
        image_pixels      INTEGER,
        prompt_tokens     INTEGER,
        vision_tokens     INTEGER,
        cached_tokens     INTEGER,
        completion_tokens INTEGER,
        queue_us          INTEGER,
        image_decode_us   INTEGER,
        encode_us         INTEGER,
        transfer_us       INTEGER,
        prefill_us        INTEGER,
        first_token_us    INTEGER,
        decode_us         INTEGER,
        total_us          INTEGER,
        bytes_in          INTEGER,
        bytes_out         INTEGER,
        cancelled_by      TEXT,
        params_json       TEXT
      ) STRICT;
      CREATE INDEX requests_by_time ON requests (ts_ms);
      CREATE INDEX requests_by_id ON requests (id);
      CREATE VIEW v_requests AS
        SELECT datetime(ts_ms / 1000, 'unixepoch') AS time_utc, id, endpoint, model, status, error_code, finish_reason,
               n_images, prompt_tokens, vision_tokens, completion_tokens,
               round(first_token_us / 1000.0, 1) AS first_token_ms, round(total_us / 1000.0, 1) AS total_ms,
               round((completion_tokens - 1) * 1e6 / nullif(decode_us, 0), 1) AS tokens_per_s
        FROM requests ORDER BY ts_ms DESC;
    )sql",
    // Traffic between devices, and who finished the request. transfer_us is in step 1.
    R"sql(
      ALTER TABLE requests ADD COLUMN transfer_bytes INTEGER;
      ALTER TABLE requests ADD COLUMN transfer_path TEXT;
      ALTER TABLE requests ADD COLUMN kv_transfer_us INTEGER;
      ALTER TABLE requests ADD COLUMN kv_transfer_bytes INTEGER;
      ALTER TABLE requests ADD COLUMN stolen INTEGER NOT NULL DEFAULT 0;
      DROP VIEW v_requests;
      CREATE VIEW v_requests AS
        SELECT datetime(ts_ms / 1000, 'unixepoch') AS time_utc, id, endpoint, model, status, error_code, finish_reason,
               n_images, prompt_tokens, vision_tokens, completion_tokens,
               round(first_token_us / 1000.0, 1) AS first_token_ms, round(total_us / 1000.0, 1) AS total_ms,
               round((completion_tokens - 1) * 1e6 / nullif(decode_us, 0), 1) AS tokens_per_s,
               round(coalesce(transfer_us + kv_transfer_us, transfer_us, kv_transfer_us) / 1000.0, 3) AS transfer_ms,
               transfer_path, stolen
        FROM requests ORDER BY ts_ms DESC;
    )sql",
    // Who asked, and totals that outlive the rows. A model's name counts only where the request got
    // as far as a prompt: clients may name anything.
    R"sql(
      ALTER TABLE requests ADD COLUMN key_name TEXT;
      CREATE TABLE usage_daily (
        day               TEXT NOT NULL,
        key_name          TEXT NOT NULL,
        model             TEXT NOT NULL,
        requests          INTEGER NOT NULL,
        failed            INTEGER NOT NULL,
        images            INTEGER NOT NULL,
        prompt_tokens     INTEGER NOT NULL,
        vision_tokens     INTEGER NOT NULL,
        cached_tokens     INTEGER NOT NULL,
        completion_tokens INTEGER NOT NULL,
        PRIMARY KEY (day, key_name, model)
      ) STRICT, WITHOUT ROWID;
      INSERT INTO usage_daily
        SELECT date(ts_ms / 1000, 'unixepoch') AS d, '',
               iif(prompt_tokens IS NULL, '', ifnull(model, '')) AS m, count(*),
               sum(ifnull(status, 0) NOT BETWEEN 200 AND 399), sum(ifnull(n_images, 0)),
               sum(ifnull(prompt_tokens, 0)), sum(ifnull(vision_tokens, 0)),
               sum(ifnull(cached_tokens, 0)), sum(ifnull(completion_tokens, 0))
        FROM requests GROUP BY d, m;
      CREATE TRIGGER requests_usage AFTER INSERT ON requests BEGIN
        INSERT INTO usage_daily VALUES (
          date(new.ts_ms / 1000, 'unixepoch'), ifnull(new.key_name, ''),
          iif(new.prompt_tokens IS NULL, '', ifnull(new.model, '')), 1,
          ifnull(new.status, 0) NOT BETWEEN 200 AND 399, ifnull(new.n_images, 0),
          ifnull(new.prompt_tokens, 0), ifnull(new.vision_tokens, 0),
          ifnull(new.cached_tokens, 0), ifnull(new.completion_tokens, 0))
        ON CONFLICT DO UPDATE SET
          requests = requests + 1, failed = failed + excluded.failed,
          images = images + excluded.images,
          prompt_tokens = prompt_tokens + excluded.prompt_tokens,
          vision_tokens = vision_tokens + excluded.vision_tokens,
          cached_tokens = cached_tokens + excluded.cached_tokens,
          completion_tokens = completion_tokens + excluded.completion_tokens;
      END;
      DROP VIEW v_requests;
      CREATE VIEW v_requests AS
        SELECT datetime(ts_ms / 1000, 'unixepoch') AS time_utc, id, key_name, endpoint, model, status, error_code,
               finish_reason, n_images, prompt_tokens, vision_tokens, completion_tokens,
               round(first_token_us / 1000.0, 1) AS first_token_ms, round(total_us / 1000.0, 1) AS total_ms,
               round((completion_tokens - 1) * 1e6 / nullif(decode_us, 0), 1) AS tokens_per_s,
               round(coalesce(transfer_us + kv_transfer_us, transfer_us, kv_transfer_us) / 1000.0, 3) AS transfer_ms,
               transfer_path, stolen
        FROM requests ORDER BY ts_ms DESC;
      CREATE VIEW v_daily AS SELECT * FROM usage_daily ORDER BY day DESC, key_name, model;
    )sql",
    // Gaps between tokens, which weights, whose trace, energy and cost. Sums of energy and cost are
    // of the requests for which they are known, and NULL where none is.
    R"sql(
      ALTER TABLE requests ADD COLUMN revision TEXT;
      ALTER TABLE requests ADD COLUMN trace_id TEXT;
      ALTER TABLE requests ADD COLUMN itl_p50_us INTEGER;
      ALTER TABLE requests ADD COLUMN itl_p99_us INTEGER;
      ALTER TABLE requests ADD COLUMN energy_uj INTEGER;
      ALTER TABLE requests ADD COLUMN cost_micros INTEGER;
      ALTER TABLE usage_daily ADD COLUMN energy_uj INTEGER;
      ALTER TABLE usage_daily ADD COLUMN cost_micros INTEGER;
      DROP TRIGGER requests_usage;
      CREATE TRIGGER requests_usage AFTER INSERT ON requests BEGIN
        INSERT INTO usage_daily (day, key_name, model, requests, failed, images, prompt_tokens, vision_tokens,
                                 cached_tokens, completion_tokens, energy_uj, cost_micros)
        VALUES (
          date(new.ts_ms / 1000, 'unixepoch'), ifnull(new.key_name, ''),
          iif(new.prompt_tokens IS NULL, '', ifnull(new.model, '')), 1,
          ifnull(new.status, 0) NOT BETWEEN 200 AND 399, ifnull(new.n_images, 0),
          ifnull(new.prompt_tokens, 0), ifnull(new.vision_tokens, 0),
          ifnull(new.cached_tokens, 0), ifnull(new.completion_tokens, 0), new.energy_uj, new.cost_micros)
        ON CONFLICT DO UPDATE SET
          requests = requests + 1, failed = failed + excluded.failed,
          images = images + excluded.images,
          prompt_tokens = prompt_tokens + excluded.prompt_tokens,
          vision_tokens = vision_tokens + excluded.vision_tokens,
          cached_tokens = cached_tokens + excluded.cached_tokens,
          completion_tokens = completion_tokens + excluded.completion_tokens,
          energy_uj = coalesce(energy_uj + excluded.energy_uj, energy_uj, excluded.energy_uj),
          cost_micros = coalesce(cost_micros + excluded.cost_micros, cost_micros, excluded.cost_micros);
      END;
      DROP VIEW v_requests;
      CREATE VIEW v_requests AS
        SELECT datetime(ts_ms / 1000, 'unixepoch') AS time_utc, id, key_name, endpoint, model, status, error_code,
               finish_reason, n_images, prompt_tokens, vision_tokens, cached_tokens, completion_tokens,
               round(queue_us / 1000.0, 1) AS queue_ms, round(encode_us / 1000.0, 1) AS encode_ms,
               round(coalesce(transfer_us + kv_transfer_us, transfer_us, kv_transfer_us) / 1000.0, 3) AS transfer_ms,
               round(prefill_us / 1000.0, 1) AS prefill_ms, round(first_token_us / 1000.0, 1) AS first_token_ms,
               round(itl_p50_us / 1000.0, 2) AS itl_p50_ms, round(itl_p99_us / 1000.0, 2) AS itl_p99_ms,
               round(decode_us / 1000.0, 1) AS decode_ms, round(total_us / 1000.0, 1) AS total_ms,
               round((completion_tokens - 1) * 1e6 / nullif(decode_us, 0), 1) AS tokens_per_s,
               transfer_path, stolen, cancelled_by, round(energy_uj / 1e6, 3) AS energy_j,
               round(cost_micros / 1e6, 6) AS cost, client, trace_id
        FROM requests ORDER BY ts_ms DESC;
      DROP VIEW v_daily;
      CREATE VIEW v_daily AS
        SELECT day, key_name, model, requests, failed, images, prompt_tokens, vision_tokens, cached_tokens,
               completion_tokens, round(energy_uj / 3.6e9, 3) AS energy_wh, round(cost_micros / 1e6, 6) AS cost
        FROM usage_daily ORDER BY day DESC, key_name, model;
    )sql",
    // Pictures that a request names by URL.
    R"sql(
      ALTER TABLE requests ADD COLUMN image_fetch_us INTEGER;
      ALTER TABLE requests ADD COLUMN image_fetch_bytes INTEGER;
      DROP VIEW v_requests;
      CREATE VIEW v_requests AS
        SELECT datetime(ts_ms / 1000, 'unixepoch') AS time_utc, id, key_name, endpoint, model, status, error_code,
               finish_reason, n_images, prompt_tokens, vision_tokens, cached_tokens, completion_tokens,
               round(queue_us / 1000.0, 1) AS queue_ms, round(image_fetch_us / 1000.0, 1) AS image_fetch_ms, round(image_decode_us / 1000.0, 1) AS image_decode_ms,
               round(encode_us / 1000.0, 1) AS encode_ms,
               round(coalesce(transfer_us + kv_transfer_us, transfer_us, kv_transfer_us) / 1000.0, 3) AS transfer_ms,
               round(prefill_us / 1000.0, 1) AS prefill_ms, round(first_token_us / 1000.0, 1) AS first_token_ms,
               round(itl_p50_us / 1000.0, 2) AS itl_p50_ms, round(itl_p99_us / 1000.0, 2) AS itl_p99_ms,
               round(decode_us / 1000.0, 1) AS decode_ms, round(total_us / 1000.0, 1) AS total_ms,
               round((completion_tokens - 1) * 1e6 / nullif(decode_us, 0), 1) AS tokens_per_s,
               transfer_path, stolen, cancelled_by, round(energy_uj / 1e6, 3) AS energy_j,
               round(cost_micros / 1e6, 6) AS cost, client, trace_id
        FROM requests ORDER BY ts_ms DESC;
    )sql",
};

Result<int64_t> version_of(Database& db) {
  return db.query_integer("PRAGMA user_version");
}

Status refuse_newer(int64_t version, int64_t known) {
  return fail(
      ErrorKind::kUnsupported,
      fmt::format(
          "the request log has schema version {}, and this build knows versions up to {}; a newer "
          "HeteroServe wrote it. Use that one, or another --log-path",
          version, known));
}

// A database without any table is a new file.
Status check_owner(Database& db) {
  const Result<int64_t> id = db.query_integer("PRAGMA application_id");
  if (!id) return std::unexpected(id.error());
  if (*id == kApplicationId) return {};
  const Result<int64_t> n_objects = db.query_integer("SELECT count(*) FROM sqlite_master");
  if (!n_objects) return std::unexpected(n_objects.error());
  if (*id == 0 && *n_objects == 0) return {};
  return fail(
      ErrorKind::kInvalidArgument,
      "the file is an SQLite database of another program; give the request log another --log-path");
}

Status apply(Database& db, int64_t version, const char* sql) {
  Result<Transaction> transaction = Transaction::begin(db);
  if (!transaction) return std::unexpected(transaction.error());
  // Another process may have taken this step while we waited for the lock.
  const Result<int64_t> now = version_of(db);
  if (!now) return std::unexpected(now.error());
  if (*now > version) return {};
  if (const Status done = db.run(sql); !done) return done;
  if (const Status done = db.run(fmt::format("PRAGMA user_version = {}; PRAGMA application_id = {}",
                                             version + 1, kApplicationId));
      !done)
    return done;
  return transaction->commit();
}

}  // namespace

std::span<const char* const> schema_steps() {
  return kSteps;
}
int64_t schema_version() {
  return static_cast<int64_t>(std::size(kSteps));
}

Status migrate(Database& db, std::span<const char* const> steps) {
  const auto last = static_cast<int64_t>(steps.size());
  const Result<int64_t> version = version_of(db);
  if (!version) return std::unexpected(version.error());
  if (const Status ours = check_owner(db); !ours) return ours;
  if (*version > last) return refuse_newer(*version, last);
  for (int64_t v = *version; v < last; ++v)
    if (const Status done = apply(db, v, steps[static_cast<size_t>(v)]); !done) return done;
  return {};
}

Status check_schema(Database& db) {
  const Result<int64_t> id = db.query_integer("PRAGMA application_id");
  if (!id) return std::unexpected(id.error());
  if (*id != kApplicationId)
    return fail(ErrorKind::kInvalidArgument, "the file is no HeteroServe request log");
  const Result<int64_t> version = version_of(db);
  if (!version) return std::unexpected(version.error());
  if (*version > schema_version()) return refuse_newer(*version, schema_version());
  if (*version < schema_version())
    return fail(ErrorKind::kUnsupported,
                "the request log has an older schema; the server upgrades it when it next starts");
  return {};
}

}  // namespace hs
