\set number random(0, 2000000000)
INSERT INTO claims VALUES ('00000000-0000-4000-8000-' || lpad((:number)::text, 12, '0'), 1, now() + interval '24 hours') ON CONFLICT DO NOTHING;
