-- SPDX-License-Identifier: Apache-2.0
--
-- Consumers (L4): which messages a group has processed, written in the transaction that processes
-- them. A message that comes again while the first is being processed waits for it.

CREATE TABLE once.message (
    consumer_group text COLLATE "C" NOT NULL,
    topic          text COLLATE "C" NOT NULL,
    message_id     text COLLATE "C" NOT NULL,
    seen_ms        bigint NOT NULL,
    expires_ms     bigint NOT NULL,
    PRIMARY KEY (consumer_group, topic, message_id)
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.05);
CREATE INDEX message_expires ON once.message (expires_ms);

-- false: it comes for the first time, process it in this transaction. true: it was seen, skip it. A
-- message is known for at least retention_ms, 7 days unless said otherwise, and until a
-- sweep.
CREATE FUNCTION once.seen(consumer_group text, topic text, message_id text,
                          retention_ms bigint DEFAULT 604800000) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
    now bigint := once.now_ms();
BEGIN
    PERFORM once.check_scope('a consumer group', $1);
    PERFORM once.check_word('a topic', $2);
    PERFORM once.check_word('a message''s id', $3);
    IF ($4 BETWEEN 1 AND 315576000000) IS NOT TRUE THEN
        PERFORM once.refuse('ERR_INVALID', 'the retention is not between 1 ms and 10 years');
    END IF;
    INSERT INTO once.message VALUES ($1, $2, $3, now, now + $4)
    ON CONFLICT (consumer_group, topic, message_id) DO NOTHING;
    IF FOUND AND once.clock_ms() - now >= 100 THEN -- it waited: known from here on
        UPDATE once.message m SET seen_ms = once.clock_ms(), expires_ms = once.clock_ms() + $4
        WHERE m.consumer_group = $1 COLLATE "C" AND m.topic = $2 COLLATE "C"
              AND m.message_id = $3 COLLATE "C";
    END IF;
    RETURN NOT FOUND;
END $$;
