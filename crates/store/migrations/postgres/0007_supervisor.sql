-- Which of the gateways on this database acts on its models' containers: its DATA_DIR (an id), a name for people, the
-- container runtime and the machine whose loopback the engines listen on. All NULL: nobody yet. `epoch` counts who
-- followed whom.
CREATE TABLE supervisor (
    id      INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    epoch   BIGINT  NOT NULL,
    gateway TEXT,
    name    TEXT,
    runtime TEXT,
    machine TEXT,
    since   BIGINT
);
INSERT INTO supervisor (id, epoch) VALUES (1, 0);
