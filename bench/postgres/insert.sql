\set number random(1, 9223372036854775807)
INSERT INTO claims VALUES ('order-' || :number, 1, now() + interval '24 hours') ON CONFLICT DO NOTHING;
