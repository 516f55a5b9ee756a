#!/bin/bash
# Runs as root in a booted Debian that has nothing of Gantry: installs, upgrades, removes and purges the package, and looks
# at each step as an administrator would. /packages holds one.deb, two.deb (a later version) and docker.deb (a stand-in
# for Docker's package: the program's name and the group). One line for each check; the last one counts them.
set -u
export LC_ALL=C DEBIAN_FRONTEND=noninteractive
passed=0 failed=0
url=http://127.0.0.1:8084

check() { # check WHAT COMMAND...
    local what=$1 said
    shift
    if said=$("$@" 2>&1); then
        passed=$((passed + 1))
        echo "ok: $what"
    else
        failed=$((failed + 1))
        echo "FAILED: $what: $(echo "$said" | tail -5)"
    fi
}

is() { [ "$1" = "$2" ] || { echo "it is \`$1\`, not \`$2\`"; return 1; }; }

within() { # within SECONDS COMMAND...
    local deadline=$((SECONDS + $1))
    shift
    until "$@" >/dev/null 2>&1; do
        [ "$SECONDS" -lt "$deadline" ] || { "$@"; return 1; }
        sleep 0.2
    done
}

ready() { within 60 curl -sf "$url/readyz"; }
pid() { systemctl show -p MainPID --value gantry.service; }
login() { curl -sf "$url/auth/login" -H 'content-type: application/json' -d '{"username":"ada","password":"correct horse"}' -c /root/jar; }
status_of() { curl -sf -b /root/jar "$url/admin/models/$1" | grep -o '"state":"[a-z]*"'; }
no_failure() { is "$(grep -c . /root/refused)" 0; }
install_ok() { dpkg -i "/packages/$1.deb"; }

# ---- installation ----

check "the package installs" install_ok one
check "the service is ready" ready
version() { curl -s "$url/health" | grep -o '"version":"[^"]*"' | cut -d'"' -f4; }
check "its version is the program's" is "$(version)" "$(gantry --version | cut -d' ' -f2)"
check "the user has no shell" is "$(getent passwd gantry | cut -d: -f6,7)" /var/lib/gantry:/usr/sbin/nologin
check "the data is the user's alone" is "$(stat -c '%U:%G %a' /var/lib/gantry)" "gantry:gantry 750"
check "the settings are root's, and the service reads them" is "$(stat -c '%U:%G %a' /etc/gantry/gantry.env)" "root:gantry 640"
check "both units are enabled" is "$(systemctl is-enabled gantry.socket gantry.service | sort -u)" enabled
check "verbs in a shell read the service's settings" \
    grep -Eq 'DATA_DIR +/var/lib/gantry +\(settings file' <(cd / && gantry settings)
check "the database is where they say" test -f /var/lib/gantry/gantry.db
check "its manual is there" test -f /usr/share/man/man1/gantry.1.gz

dead_links() { # prints the links of the pages that lead nowhere
    local page link
    cd /usr/share/doc/gantry || return
    find . -name '*.md' | while read -r page; do
        grep -oE '\]\([^)# ]+' "$page" | cut -c3- | grep -v '://' | while read -r link; do
            [ -e "$(dirname "$page")/$link" ] || echo "$page: $link"
        done
    done
}
check "no link of its pages is dead" is "$(dead_links)" ""

echo 'correct horse' >/root/password
check "the first owner is made" gantry owner create ada --org Acme --password-file /root/password
check "the database is still the service's alone" \
    is "$(find /var/lib/gantry ! -user gantry | head -3)" ""
check "and signs in" login
check "the timer for backups is off" is "$(systemctl is-enabled gantry-backup.timer)" disabled
check "its service makes a backup" systemctl start gantry-backup.service
check "of the database" test -f "/var/lib/gantry/backups/$(date +%F)/gantry.db"
check "and it can be restored" bash -c 'gantry restore "/var/lib/gantry/backups/$(date +%F)" --dry-run'

# ---- upgrade ----

echo HEALTH_POLL_SEC=11 >>/etc/gantry/gantry.env
before=$(pid)
: >/root/refused
(while [ ! -e /root/done ]; do curl -sf -o /dev/null --max-time 60 "$url/health" || echo refused >>/root/refused; done) &
check "a later version installs" install_ok two
touch /root/done
wait
check "the service is ready again" ready
check "it is another process" test "$(pid)" != "$before"
check "no request was refused meanwhile" no_failure
check "what was written into the settings stays" grep -qx HEALTH_POLL_SEC=11 /etc/gantry/gantry.env
check "the owner is still there" login

before=$(pid)
check "a reload is answered" bash -c '! systemctl reload gantry.service'
check "with what to do instead" within 30 bash -c 'journalctl -u gantry.service | grep -q "systemctl restart gantry reads"'
check "and the service goes on" is "$(pid)" "$before"

# ---- Docker comes later ----

check "the service runs without Docker's group" is "$(id -nG gantry)" gantry
check "Docker's package installs" install_ok docker
may_use_docker() { id -nG gantry | grep -qw docker; }
check "the service may use Docker then" within 30 may_use_docker
has_docker() { grep -Eq "^Groups:.*\\b$(getent group docker | cut -d: -f3)\\b" "/proc/$(pid)/status"; }
check "and has been restarted for it" within 60 has_docker

# ---- engines that are processes ----

cat >>/etc/gantry/gantry.env <<'ENV'
CONTAINER_RUNTIME=process
SECONDARY_ENGINE_COMMAND=/usr/bin/gantry engine-sim --flavour llamacpp
ENV
systemctl restart gantry.service
check "the service is ready with process engines" ready
login >/dev/null
install -m 644 -o gantry -g gantry /packages/tiny.gguf /var/lib/gantry/models/tiny.gguf
model='{"served_name":"tiny","engine_type":"llamacpp","local_path":"tiny.gguf","device":"cpu"}'
id=$(curl -s -b /root/jar "$url/admin/models" -H 'content-type: application/json' -d "$model" | grep -o '"id":[0-9]*' | head -1 | cut -d: -f2)
curl -s -b /root/jar -X POST "$url/admin/models/$id/start" >/dev/null
is_running() { is "$(status_of "$id" | head -1)" '"state":"running"'; }
check "a model runs as a process" within 60 is_running
engine_pid() { pgrep -u gantry -f 'engine-sim.*tiny' | head -1; }
engine=$(engine_pid)
systemctl restart gantry.service
check "the service is ready after a restart" ready
login >/dev/null
check "the engine went on" test -d "/proc/$engine"
check "and its model runs" within 60 is_running
check "the package installs over a running engine" install_ok two
check "the service is ready after that" ready
check "the engine went on through it" test -d "/proc/$engine"
install -D -m 644 /usr/share/doc/gantry/examples/process-engines.conf /etc/systemd/system/gantry.service.d/process-engines.conf
systemctl daemon-reload
systemctl restart gantry.service
check "the service is ready with the rights for GPUs" ready
check "the engine went on with them" test -d "/proc/$engine"
login >/dev/null
check "and its model still runs" within 60 is_running
curl -s -b /root/jar -X POST "$url/admin/models/$id/stop" >/dev/null
check "it ends when it is stopped" within 60 test ! -d "/proc/$engine"

# ---- removal, and a second installation ----

check "the package is removed" dpkg -r gantry
check "nothing serves any more" bash -c "! curl -s --max-time 5 $url/health"
check "the database stays" test -f /var/lib/gantry/gantry.db
check "so do the settings" test -f /etc/gantry/gantry.env
check "it installs again" install_ok two
check "it is ready again" ready
check "with the same owner" login

# ---- purge ----

install -d -o gantry -g gantry /var/lib/gantry/backup-1 /var/lib/gantry/more-models
curl -s -b /root/jar -X POST "$url/admin/models/$id/start" >/dev/null
check "a model runs before the purge" within 60 is_running
engine=$(engine_pid)
purge() { dpkg -P gantry >/root/purged 2>&1; }
check "the package is purged" purge
check "its engine has ended" test -n "$engine" -a ! -d "/proc/$engine"
check "the purge says so" grep -q 'Ending the engines' /root/purged
check "and what it leaves" grep -q 'Kept in /var/lib/gantry:.*models' /root/purged
check "settings and database are gone" test ! -e /etc/gantry -a ! -e /var/lib/gantry/gantry.db -a ! -e /var/lib/gantry/secrets
check "model weights are not" test -f /var/lib/gantry/models/tiny.gguf
check "nor is what the administrator put there" test -d /var/lib/gantry/backup-1 -a -d /var/lib/gantry/more-models
rm -rf /var/lib/gantry
check "it installs a third time" install_ok one
check "it is ready a third time" ready
check "it is purged again" dpkg -P gantry
check "nothing of it is left" bash -c '! getent passwd gantry && test ! -e /var/lib/gantry -a ! -e /lib/systemd/system/gantry.service'

echo "package: $passed passed, $failed failed"
