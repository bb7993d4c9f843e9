/* completion: scripts for three shells, written from the table of commands. */
#include "cli/cli.h"

/* Every option of a command as one shell word each. */
static void print_words(const struct command *c) {
    for (size_t i = 0; i <= COUNT_OF(c->opts); i++)
        for (const struct opt *o = i < COUNT_OF(c->opts) ? c->opts[i] : common_opts; o && o->name;
             o++)
            printf(" --%s", o->name);
}

/* bash, and zsh through its bashcompinit: the first word, the second of a two-word command, options. */
static void print_bash(void) {
    printf("_berm() {\n"
           "    local cur=${COMP_WORDS[COMP_CWORD]} words\n"
           "    COMPREPLY=()\n"
           "    case \"${COMP_WORDS[1]} ${COMP_WORDS[2]}\" in\n");
    for (int two_words = 1; two_words >= 0; two_words--) /* the longer pattern comes first */
        for (size_t i = 0; i < n_commands; i++)
            if ((strchr(commands[i].name, ' ') != NULL) == two_words) {
                printf("    \"%s\"%s) words=\"", commands[i].name, two_words ? "" : "\\ *");
                print_words(&commands[i]);
                printf("\" ;;\n");
            }
    printf("    esac\n"
           "    if [ \"$COMP_CWORD\" = 1 ]; then\n        words=\"");
    for (size_t i = 0; i < n_commands; i++) {
        struct str rest = str_of(commands[i].name), first;
        if (str_split(&rest, ' ', &first))
            printf(" %.*s", (int)first.n, first.p);
    }
    printf("\"\n    elif [ \"$COMP_CWORD\" = 2 ]; then\n        case ${COMP_WORDS[1]} in\n");
    for (size_t i = 0; i < n_commands; i++) {
        const char *second = strchr(commands[i].name, ' ');
        if (second)
            printf("        %.*s) words=\"$words%s\" ;;&\n", (int)(second - commands[i].name),
                   commands[i].name, second);
    }
    printf("        esac\n    fi\n"
           "    COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
           "}\n"
           "complete -o default -F _berm berm\n");
}

static void print_zsh(void) {
    printf("autoload -U +X compinit && compinit\n"
           "autoload -U +X bashcompinit && bashcompinit\n");
    print_bash();
}

/* What stands in single quotes of fish. */
static void print_quoted(const char *text) {
    putchar('\'');
    for (; *text != '\0'; text++)
        printf(*text == '\'' || *text == '\\' ? "\\%c" : "%c", *text);
    putchar('\'');
}

static void print_fish_opts(const struct command *c, const char *when) {
    for (size_t i = 0; i <= COUNT_OF(c->opts); i++)
        for (const struct opt *o = i < COUNT_OF(c->opts) ? c->opts[i] : common_opts; o && o->name;
             o++) {
            printf("complete -c berm -n '%s' -l %s", when, o->name);
            if (o->letter)
                printf(" -s %c", o->letter);
            printf("%s -d ", o->takes ? " -r" : "");
            print_quoted(o->what);
            putchar('\n');
        }
}

static void print_fish(void) {
    for (size_t i = 0; i < n_commands; i++) {
        const struct command *c = &commands[i];
        const char *second = strchr(c->name, ' ');
        int n = second ? (int)(second - c->name) : (int)strlen(c->name);
        printf("complete -c berm -n __fish_use_subcommand -f -a %.*s -d ", n, c->name);
        print_quoted(c->what);
        putchar('\n');
        if (second) {
            printf("complete -c berm -n '__fish_seen_subcommand_from %.*s' -f -a %s -d ", n,
                   c->name, second + 1);
            print_quoted(c->what);
            putchar('\n');
        }
        char when[128];
        snprintf(when, sizeof when, "__fish_seen_subcommand_from %s", second ? second + 1 : c->name);
        print_fish_opts(c, when);
    }
}

int cmd_completion(struct cli *cli) {
    static const struct {
        const char *name;
        void (*print)(void);
    } shells[] = {{"bash", print_bash}, {"zsh", print_zsh}, {"fish", print_fish}};
    for (size_t i = 0; i < COUNT_OF(shells); i++)
        if (strcmp(cli->args[0], shells[i].name) == 0)
            return shells[i].print(), 0;
    return opt_usage(cli, "%s: give bash, zsh or fish", cli->args[0]);
}
