-- SPDX-License-Identifier: Apache-2.0
--
-- A function of yours, once for each key: begin, call, complete, in the caller's transaction and
-- with the caller's rights. Its answer replays; an error of it takes everything back, the key too.

-- The statement that calls it. The name is put together from the catalog: nothing of it is the
-- caller's text.
CREATE FUNCTION once.apply_call(function regproc, request jsonb) RETURNS text
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    called text;
BEGIN
    SELECT format('SELECT %I.%I($1)', n.nspname, p.proname) INTO called
    FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
    WHERE p.oid = $1 AND p.prokind = 'f' AND NOT p.proretset AND p.prorettype = 'jsonb'::regtype
          AND p.pronargs = 1 AND p.proargtypes[0] = 'jsonb'::regtype;
    IF called IS NULL THEN
        PERFORM once.refuse('ERR_INVALID', CASE WHEN $1 IS NULL THEN 'there is no function to apply'
            ELSE format('%s does not take one jsonb and return one jsonb', $1) END);
    ELSIF $2 IS NULL THEN
        PERFORM once.refuse('ERR_INVALID', 'there is no request: the key is bound to it');
    END IF;
    RETURN called;
END $$;

-- What a verdict other than EXECUTE means to apply: the first answer, or an error.
CREATE FUNCTION once.apply_answer(v once.verdict, ns text, key text) RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    about text := format('namespace %s, key %s', $2, $3);
BEGIN
    IF $1.verdict = 'REPLAY' THEN
        BEGIN
            RETURN nullif(convert_from($1.result, 'UTF8'), '')::jsonb;
        EXCEPTION WHEN data_exception OR untranslatable_character THEN
            PERFORM once.refuse('ERR_INVALID',
                format('the operation %s %s has a result that is not JSON: it was not completed by '
                       'apply', $2, $3));
        END;
    ELSIF $1.verdict = 'BUSY' THEN
        PERFORM once.raise_word(2, 'BUSY', format('someone holds a live lease; come back in %s ms',
                                                  $1.retry_ms), about);
    ELSIF $1.verdict = 'MISMATCH' THEN
        PERFORM once.raise_word(3, 'MISMATCH', 'this key belongs to another request', about);
    ELSIF $1.verdict = 'DOUBT' THEN
        PERFORM once.raise_word(4, 'DOUBT', 'someone started it and vanished: resolve it', about);
    ELSIF $1.verdict = 'TOO_OLD' THEN
        PERFORM once.raise_word(5, 'TOO_OLD', 'the key was born longer ago than answers are kept',
                                about);
    END IF;
    RAISE EXCEPTION 'apply does not know the verdict %', $1.verdict;
END $$;

-- No search_path of its own: the function runs with the caller's. So every name here is whole.
CREATE FUNCTION once.apply(ns text, key text, request jsonb, function regproc,
                           ttl_ms bigint DEFAULT 86400000) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
    call pg_catalog.text := once.apply_call($4, $3);
    v once.verdict := once.begin($1, $2, once.fingerprint($3), NULL, $5);
    answer pg_catalog.jsonb;
BEGIN
    IF v.verdict OPERATOR(pg_catalog.<>) 'EXECUTE' THEN
        RETURN once.apply_answer(v, $1, $2);
    END IF;
    EXECUTE call INTO answer USING $3;
    PERFORM once.complete($1, $2, v.fence, 0,
                          pg_catalog.convert_to(answer::pg_catalog.text, 'UTF8'));
    RETURN answer;
END $$;
