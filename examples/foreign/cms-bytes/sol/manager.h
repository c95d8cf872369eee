void send(int byte);
