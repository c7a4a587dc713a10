-- The image that a run had MAAS install on a node's machine. It counts for one enrolment: what an agent that enrolled again runs
-- on is not known.
CREATE TABLE node_images (
	node_id      TEXT PRIMARY KEY,
	image        TEXT NOT NULL,   -- empty: MAAS has the machine back
	epoch        BIGINT NOT NULL, -- the enrolment that came with the image
	run_id       TEXT NOT NULL,
	installed_at BIGINT NOT NULL
);
-- The newest baseline of each image on a node: the next installation of the image is compared with it.
CREATE TABLE node_image_baselines (
	node_id TEXT NOT NULL,
	image   TEXT NOT NULL,
	digest  TEXT NOT NULL,
	PRIMARY KEY (node_id, image)
);
