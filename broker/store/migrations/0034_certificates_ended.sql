-- What ran out long ago is looked for each hour, and removed where a later certificate is for
-- the same key: a node renews its own some 550 times a year.
CREATE INDEX certificates_ended ON certificates (not_after);
