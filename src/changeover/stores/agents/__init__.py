"""What people say of agents beside what code declares: in memory and in databases."""
