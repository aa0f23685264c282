package rmqcompat;

/** One thing a user of the client relies on; throws when it does not hold. */
@FunctionalInterface
interface Scenario {
    void run(Context context) throws Exception;
}
