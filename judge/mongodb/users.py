"""The users of the database that judicators log in as: one for each password of the file, and none left over."""

from __future__ import annotations

from pymongo import errors

from judge.config import MongodbConfig
from judge.mongodb import store
from judge.mongodb.store import Bson, Client, translate


def ensure(client: Client, config: MongodbConfig) -> list[str]:
    """Make a user for each password of the config's file, or give it that password; the names of those that are new.

    They may read and write the one database, and see the state of the set: not change users, settings or members.
    `client` is a member's, on the primary. RefusedError for a file without passwords, else what `translate` says.
    """
    roles = [{"role": "readWrite", "db": config.database}, {"role": "clusterMonitor", "db": "admin"}]
    made = []
    try:
        for login in store.logins(config.username, config.password_file):
            wanted: Bson = {"pwd": login["password"], "roles": roles, "writeConcern": {"w": "majority"}}
            exists = bool(client.admin.command("usersInfo", login["username"])["users"])
            client.admin.command("updateUser" if exists else "createUser", login["username"], **wanted)
            made += [] if exists else [str(login["username"])]
    except errors.PyMongoError as exc:
        raise translate(exc) from exc
    return made


def left_over(username: str, listed: list[str], wanted: list[str]) -> list[str]:
    """Those of the users in `listed` that were the judicators' and whose passwords are no longer in force, sorted."""
    ours = {name for name in listed if name == username or name.startswith(f"{username}.")}
    return sorted(ours - set(wanted))


def remove_left_over(client: Client, config: MongodbConfig) -> list[str]:
    """Remove the users whose passwords are not in the config's file any more; their names. Raises as `ensure` does."""
    wanted = [str(login["username"]) for login in store.logins(config.username, config.password_file)]
    if config.username is None or not wanted:
        return []
    try:
        listed = [str(user["user"]) for user in client.admin.command("usersInfo", 1)["users"]]
        gone = left_over(config.username, listed, wanted)
        for name in gone:
            client.admin.command("dropUser", name, writeConcern={"w": "majority"})
    except errors.PyMongoError as exc:
        raise translate(exc) from exc
    return gone
