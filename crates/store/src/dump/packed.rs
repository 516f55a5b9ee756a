//! Dumps that are compressed, or of another format of `pg_dump`. They are not read, but named, with the command that makes a plain
//! dump of them.

/// How files begin, and what they are. Formats of `pg_dump`: `pg_backup_archiver.h` and `pg_backup_tar.c` of PostgreSQL.
const FORMS: [(&[u8], &str); 7] = [
    (
        b"PGDMP",
        "a dump of `pg_dump --format=custom`, and only plain ones are read: `pg_restore --file=plain.sql DUMP` makes one of it",
    ),
    (
        b"toc.dat\0",
        "a dump of `pg_dump --format=tar`, and only plain ones are read: `pg_restore --file=plain.sql DUMP` makes one of it",
    ),
    (b"\x1f\x8b", "a file that gzip compressed: `gzip -dc DUMP >plain.sql` unpacks it"),
    (b"\x28\xb5\x2f\xfd", "a file that zstd compressed: `zstd -dc DUMP >plain.sql` unpacks it"),
    (b"\x04\x22\x4d\x18", "a file that lz4 compressed: `lz4 -dc DUMP >plain.sql` unpacks it"),
    (b"\xfd7zXZ\0", "a file that xz compressed: `xz -dc DUMP >plain.sql` unpacks it"),
    (b"BZh", "a file that bzip2 compressed: `bzip2 -dc DUMP >plain.sql` unpacks it"),
];

/// Returns what a file with this beginning is, if it is no plain dump but one that can be made plain.
pub(crate) fn named(beginning: &[u8]) -> Option<&'static str> {
    FORMS.iter().find(|(first, _)| beginning.starts_with(first)).map(|(_, what)| *what)
}

#[cfg(test)]
mod tests {
    use crate::check_dump;

    #[test]
    fn dumps_of_other_formats_are_named_with_the_command_that_makes_them_plain() {
        for (beginning, command) in [
            (&b"PGDMP\x01\x10\x00\x04\x08"[..], "pg_restore --file=plain.sql"),
            (b"toc.dat\0\0\0\0", "pg_restore --file=plain.sql"),
            (b"\x1f\x8b\x08\x00\x00", "gzip -dc"),
            (b"\x28\xb5\x2f\xfd\x04", "zstd -dc"),
            (b"\x04\x22\x4d\x18\x64", "lz4 -dc"),
            (b"\xfd7zXZ\0\0", "xz -dc"),
            (b"BZh9", "bzip2 -dc"),
        ] {
            let problems = check_dump(beginning).problems;
            assert!(problems.len() == 1 && problems[0].contains(command), "{problems:?}");
        }
    }
}
